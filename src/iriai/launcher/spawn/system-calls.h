/*
 * System calls for iriai-exec.c, answering with a negative error number. With IRIAI_FREESTANDING
 * there is no C library: the calls are made here, and the program begins here too.
 */
#ifndef IRIAI_SYSTEM_CALLS_H
#define IRIAI_SYSTEM_CALLS_H

#ifdef IRIAI_FREESTANDING

#if defined(__x86_64__)

static long call5(long number, long a, long b, long c, long d, long e)
{
    long result;
    register long fourth __asm__("r10") = d;
    register long fifth __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

__asm__(".globl _start\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov %rsp, %rdi\n"
        "    and $-16, %rsp\n"
        "    call begin\n");

#elif defined(__aarch64__)

static long call5(long number, long a, long b, long c, long d, long e)
{
    register long call __asm__("x8") = number;
    register long first __asm__("x0") = a;
    register long second __asm__("x1") = b;
    register long third __asm__("x2") = c;
    register long fourth __asm__("x3") = d;
    register long fifth __asm__("x4") = e;
    __asm__ volatile("svc 0"
                     : "+r"(first)
                     : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
                     : "memory");
    return first;
}

__asm__(".globl _start\n"
        "_start:\n"
        "    mov x29, xzr\n"
        "    mov x0, sp\n"
        "    bl begin\n");

#else
#error "this processor's system calls are not written down here; compile with the C library"
#endif

int main(int count, char **arguments, char **environment);

/* What the kernel left on the stack: the number of arguments, they, and the environment. */
__attribute__((used, noreturn)) void begin(long *stack)
{
    char **arguments = (char **)(stack + 1);
    int count = (int)stack[0];
    long code = main(count, arguments, arguments + count + 1);
    for (;;)
        call5(__NR_exit_group, code, 0, 0, 0, 0);
}

/* Compilers call these two by themselves where they clear or copy a structure. */
__attribute__((used)) void *memset(void *to, int value, size_t size)
{
    for (volatile char *each = to; size--; each++)
        *each = (char)value;
    return to;
}

__attribute__((used)) void *memcpy(void *to, const void *from, size_t size)
{
    const char *source = from;
    for (volatile char *each = to; size--; each++)
        *each = *source++;
    return to;
}

#else

#include <unistd.h>

static long call5(long number, long a, long b, long c, long d, long e)
{
    long result = syscall(number, a, b, c, d, e);
    return result < 0 ? -errno : result;
}

#endif

/* On 32-bit processors the plain names take 16-bit numbers. */
#ifdef __NR_setresuid32
enum { SET_USER = __NR_setresuid32, SET_GROUP = __NR_setresgid32, SET_GROUPS = __NR_setgroups32 };
#else
enum { SET_USER = __NR_setresuid, SET_GROUP = __NR_setresgid, SET_GROUPS = __NR_setgroups };
#endif

/* call(NUMBER, VALUE...): up to five values; what is not given is 0. */
#define call(...) call_with((const long[6]){__VA_ARGS__})

static inline long call_with(const long values[6])
{
    return call5(values[0], values[1], values[2], values[3], values[4], values[5]);
}

#endif
