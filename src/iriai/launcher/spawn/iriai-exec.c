/*
 * iriai-exec: what stands between the launcher and a task.
 *
 * The launcher starts it by posix_spawn. It joins the task's control groups, drops to the task's
 * user, opens its files as that user and becomes the task by execve: what has to happen between
 * fork and exec, and what posix_spawn cannot do. docs/adr/0010-launcher-helper.md argues it;
 * iriai_exec.py is the same program in Python.
 *
 * Arguments, in any order, up to "--"; then the task's own argument vector:
 *   p=PID              the launcher; without it as parent nothing is run
 *   r=FD               where a failure is reported: struct report, in one write
 *   g=PATH             a control group's file of members; "0" is written to it (repeatable)
 *   l=RESOURCE:SOFT:HARD   a resource limit by its number (repeatable)
 *   u=UID:GID:G,G,...  user, group and supplementary groups, no capability where the user is not
 *                      root, and no key of the launcher's session; without it the user stays
 *   n=                 no program gives the task rights that it has not: no_new_privs, and with u=
 *                      no capability, now or later
 *   m=FD               with u=: a mount namespace, which is entered once the task's files are open
 *   d=PATH             working directory
 *   i=PATH             standard input; without it descriptor 0 stays as it is
 *   o=PATH e=PATH      standard output and error, appended to, made where missing;
 *                      without e= standard error goes where standard output goes
 *   k=                 both outputs stay as they are, but for what e= says
 *   t=                 descriptor 0 becomes the controlling terminal
 *   a=N,N,...          the only processors on which it runs, below 4096
 *   f=FD               a descriptor that the program has
 *   w=                 nothing is executed: this process waits until it is ended
 *   h=                 it stops itself, before it becomes the user, and goes on after SIGCONT
 *   b=NICE             it gives way: the last to be served by a disk, the first to be ended where
 *                      memory is short, and with NICE its session has that nice value among sessions
 *
 * As `iriai-exec s=FD` it waits instead: each message on that socket is one task, which it starts as
 * its own sibling, a child of the launcher (see serve).
 *
 * Environment: entries that begin with ':' are the task's, without the colon; all others are
 * dropped. So a variable that a dynamic loader would act upon (LD_PRELOAD) has no effect here,
 * where the user's word is not yet to be trusted.
 *
 * It is started once for every task, so it uses system calls alone: with -DIRIAI_FREESTANDING and
 * -nostdlib it has no C library, whose own start takes longer than all that is done here (on a
 * virtual machine each of its questions to the processor leaves the machine).
 */
#define _GNU_SOURCE
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "system-calls.h"

/* The kernel's own numbers and shapes, the same on every architecture that Linux runs on. */
enum { PARENT_DEATH_SIGNAL = 1, SIGNAL_KILL = 9, SIGNAL_STOP = 19, SIGNALS = 64, SET_MASK = 2 };
enum { BOUNDING_READ = 23, BOUNDING_DROP = 24, NO_NEW_PRIVILEGES = 38, CAPABILITIES = 64 };
enum { KEEP_CAPABILITIES = 8, CAPABILITY_VERSION_3 = 0x20080522, MOUNT_NAMESPACE = 0x20000 };
enum { TO_ENTER = 1 << 18 | 1 << 21, NONE = 0 }; /* CAP_SYS_CHROOT, CAP_SYS_ADMIN */
enum { SET_CONTROLLING_TERMINAL = 0x540E, ORDINARY_SCHEDULING = 0, JOIN_SESSION_KEYRING = 1 };
enum { FIRST_OTHER = 3, LAST_POSSIBLE = 0x7FFFFFFF, CLOSE_ON_EXEC = 4 };
enum { OWN_PROCESS = 1, IDLE_CLASS = 3 << 13 }; /* of ioprio_set(2) */
enum { CHILD_OF_PARENT = 0x8000, REQUEST_BYTES_MAX = 1 << 16 };
#ifndef __NR_close_range
#define __NR_close_range 436 /* on every architecture; older headers do not name it */
#endif
#ifndef __NR_clone3
#define __NR_clone3 435
#endif

struct kernel_limit {
    uint64_t soft;
    uint64_t hard;
};

/* The order is part of the contract with spawn.py. */
enum stage {
    STAGE_ARGUMENTS = 1,
    STAGE_SESSION,
    STAGE_GROUP,
    STAGE_PARENT,
    STAGE_TERMINAL,
    STAGE_LIMIT,
    STAGE_USER,
    STAGE_DIRECTORY,
    STAGE_STDIN,
    STAGE_STDOUT,
    STAGE_STDERR,
    STAGE_EXEC,
    STAGE_NAMESPACE
};

struct report {
    int32_t pid;
    int32_t stage;
    int32_t error;
};

enum { PROCESSORS_MAX = 4096 };
enum { GROUPS_MAX = 65536, PATH_BYTES_MAX = 4096, TASK_UMASK = 022, FILE_MODE = 0666 };
enum { EXIT_NOT_RUN = 126 };

static int report_fd = -1;
static uint32_t supplementary[GROUPS_MAX];

/* Report that `stage` failed and end. `error` is a positive error number. */
static __attribute__((noreturn)) void fail(enum stage stage, long error)
{
    struct report report = {(int32_t)call(__NR_getpid), (int32_t)stage, (int32_t)error};
    if (report_fd >= 0)
        call(__NR_write, report_fd, (long)&report, (long)sizeof report);
    for (;;)
        call(__NR_exit_group, EXIT_NOT_RUN);
}

static long check(long result, enum stage stage)
{
    if (result < 0)
        fail(stage, -result);
    return result;
}

/* The first `wanted` in text, or where text ends. */
static const char *find(const char *text, char wanted)
{
    while (*text && *text != wanted)
        text++;
    return text;
}

/* The rest of text behind the words that it begins with; NULL: it begins otherwise. */
static const char *behind(const char *text, const char *words)
{
    while (*words)
        if (*text++ != *words++)
            return NULL;
    return text;
}

/* The number that *text begins with; *text then stands behind it and behind one separator. */
static uint64_t number(const char **text, char separator)
{
    uint64_t value = 0;
    const char *begin = *text;
    for (; **text >= '0' && **text <= '9'; ++*text)
        value = value * 10 + (uint64_t)(**text - '0');
    if (*text == begin || (**text && **text != separator))
        fail(STAGE_ARGUMENTS, EINVAL);
    if (**text)
        ++*text;
    return value;
}

/* Every signal at its default. Refused for KILL and STOP, which is no matter. */
static void reset_signals(void)
{
    uint64_t nothing[4] = {0}; /* as struct sigaction: the default handler, no flags, no mask */
    for (long each = 1; each <= SIGNALS; each++)
        call(__NR_rt_sigaction, each, (long)nothing, 0, (long)sizeof(uint64_t));
}

static void block_signals(uint64_t mask)
{
    call(__NR_rt_sigprocmask, SET_MASK, (long)&mask, 0, (long)sizeof mask);
}

static void join(const char *path)
{
    long fd = check(call(__NR_openat, AT_FDCWD, (long)path, O_WRONLY, 0), STAGE_GROUP);
    check(call(__NR_write, fd, (long)"0", 1), STAGE_GROUP);
    call(__NR_close, fd);
}

/* Write a text to a file, where that is there and permitted. */
static void try_to_write(const char *path, const char *text)
{
    long fd = call(__NR_openat, AT_FDCWD, (long)path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    call(__NR_write, fd, (long)text, find(text, 0) - text);
    call(__NR_close, fd);
}

/* What the kernel refuses here is no reason not to run. */
static void give_way(const char *nice)
{
    call(__NR_ioprio_set, OWN_PROCESS, 0, IDLE_CLASS);
    try_to_write("/proc/self/oom_score_adj", "1000");
    if (*nice)
        try_to_write("/proc/self/autogroup", nice);
}

static void limit(const char *text)
{
    struct kernel_limit values;
    long resource = (long)number(&text, ':');
    values.soft = number(&text, ':');
    values.hard = number(&text, ':');
    check(call(__NR_prlimit64, 0, resource, (long)&values, 0), STAGE_LIMIT);
}

/* Where the kernel has none of them, as in a container whose processors changed, it runs on any. */
static void bind_to(const char *text)
{
    uint64_t mask[PROCESSORS_MAX / 64] = {0};
    while (*text) {
        uint64_t each = number(&text, ',');
        if (each < PROCESSORS_MAX)
            mask[each / 64] |= (uint64_t)1 << each % 64;
    }
    call(__NR_sched_setaffinity, 0, (long)sizeof mask, (long)mask);
}

static void set_user(long uid)
{
    check(call(SET_USER, uid, uid, uid), STAGE_USER);
}

/* Take the groups of UID:GID:G,G,...; returns the user, who is not changed yet. */
static long take_groups(const char *text)
{
    long count = 0;
    long uid = (long)number(&text, ':');
    long gid = (long)number(&text, ':');
    while (*text) {
        if (count == GROUPS_MAX)
            fail(STAGE_USER, EINVAL);
        supplementary[count++] = (uint32_t)number(&text, ',');
    }
    check(call(SET_GROUPS, count, (long)supplementary), STAGE_USER);
    check(call(SET_GROUP, gid, gid, gid), STAGE_USER);
    return uid;
}

/*
 * Before the user changes, who could not any more. Usually the launcher has done it already, since
 * it takes as long as a tenth of everything else here. The kernel refuses what it has no capability
 * for, and where root itself may not there is nothing to be dropped either.
 */
static void empty_bounding_set(void)
{
    if (call(__NR_prctl, BOUNDING_READ, 0) == 0)
        return;
    for (long each = 0; each < CAPABILITIES; each++)
        if (call(__NR_prctl, BOUNDING_DROP, each) < 0)
            return;
}

/* None is inheritable, and with that set the ambient one goes too. */
static void hold_capabilities(uint32_t permitted, uint32_t effective)
{
    struct {
        uint32_t version;
        int32_t pid;
    } self = {CAPABILITY_VERSION_3, 0};
    uint32_t sets[6] = {effective, permitted}; /* and inheritable; twice 32 of each */
    check(call(__NR_capset, (long)&self, (long)sets), STAGE_USER);
}

static void move(long fd, long target, enum stage stage)
{
    check(call(__NR_dup3, fd, target, 0), stage);
}

static void open_as(long target, const char *path, long flags, enum stage stage)
{
    long fd = call(__NR_openat, AT_FDCWD, (long)path, flags | O_NOCTTY | O_LARGEFILE, FILE_MODE);
    check(fd, stage);
    if (fd == target)
        return;
    move(fd, target, stage);
    call(__NR_close, fd);
}

/* The task's environment: what begins with a colon, without it. Done in place. */
static char **task_environment(char **entries)
{
    char **kept = entries;
    for (char **entry = entries; *entry; entry++)
        if (**entry == ':')
            *kept++ = *entry + 1;
    *kept = NULL;
    return entries;
}

/*
 * Returns an error number where path could not be executed. A text without #! is given to the
 * shell; in front of the arguments there is room for its name, where "--" stood.
 */
static long execute(char *path, char **arguments, char **environment)
{
    long error = -call(__NR_execve, (long)path, (long)arguments, (long)environment);
    if (error != ENOEXEC)
        return error;
    char *name = arguments[0], *separator = arguments[-1];
    arguments[-1] = (char *)"/bin/sh";
    arguments[0] = path;
    error = -call(__NR_execve, (long)arguments[-1], (long)(arguments - 1), (long)environment);
    arguments[-1] = separator;
    arguments[0] = name;
    return error;
}

static const char *search_path(char **environment)
{
    for (; *environment; environment++) {
        const char *value = behind(*environment, "PATH=");
        if (value)
            return value;
    }
    return "/usr/local/bin:/usr/bin:/bin";
}

/* As a shell would: each directory of PATH in turn; "not permitted" outweighs "not there". */
static long search(char **arguments, char **environment)
{
    char full[PATH_BYTES_MAX];
    long worst = ENOENT;
    size_t name_length = (size_t)(find(arguments[0], 0) - arguments[0]);
    const char *directory = search_path(environment);
    for (;;) {
        const char *end = find(directory, ':');
        size_t length = (size_t)(end - directory);
        if (length + name_length + 3 <= sizeof full) {
            char *to = full;
            for (size_t at = 0; at < length; at++)
                *to++ = directory[at];
            if (!length)
                *to++ = '.';
            *to++ = '/';
            for (size_t at = 0; at <= name_length; at++)
                *to++ = arguments[0][at];
            long error = execute(full, arguments, environment);
            if (error == EACCES || (error != ENOENT && error != ENOTDIR && worst == ENOENT))
                worst = error;
        }
        if (!*end)
            return worst;
        directory = end + 1;
    }
}

/* The values of the options; repeated ones (g, l) are read in their step. */
struct settings {
    const char *user, *directory, *input, *output, *error, *processors, *background;
    long parent;
    int keep_outputs, terminal, no_new_privileges, namespace, waits, halts, kept;
};

/* Read the options; returns where "--" stands. */
static int read_options(int count, char **options, struct settings *settings)
{
    int at = 1;
    for (; at < count; at++) {
        const char *value = options[at] + 2;
        if (options[at][0] == '-' && options[at][1] == '-' && !options[at][2])
            break;
        if (!options[at][0] || options[at][1] != '=')
            fail(STAGE_ARGUMENTS, EINVAL);
        switch (options[at][0]) {
        case 'p': settings->parent = (long)number(&value, 0); break;
        case 'r':
            report_fd = (int)number(&value, 0);
            call(__NR_fcntl, report_fd, F_SETFD, FD_CLOEXEC);
            break;
        case 'u': settings->user = value; break;
        case 'd': settings->directory = value; break;
        case 'i': settings->input = value; break;
        case 'o': settings->output = value; break;
        case 'e': settings->error = value; break;
        case 'k': settings->keep_outputs = 1; break;
        case 't': settings->terminal = 1; break;
        case 'm': settings->namespace = (int)number(&value, 0); break;
        case 'n': settings->no_new_privileges = 1; break;
        case 'w': settings->waits = 1; break;
        case 'h': settings->halts = 1; break;
        case 'f': settings->kept = (int)number(&value, 0); break;
        case 'a': settings->processors = value; break;
        case 'b': settings->background = value; break;
        case 'g': case 'l': break;
        default: fail(STAGE_ARGUMENTS, EINVAL);
        }
    }
    if (at + 1 >= count)
        fail(STAGE_ARGUMENTS, EINVAL);
    return at;
}

static void open_files(const struct settings *settings)
{
    long flags = O_WRONLY | O_APPEND | O_CREAT;
    if (settings->input)
        open_as(0, settings->input, O_RDONLY, STAGE_STDIN);
    if (settings->keep_outputs && settings->error)
        open_as(2, settings->error, flags, STAGE_STDERR);
    if (settings->keep_outputs)
        return;
    open_as(1, settings->output ? settings->output : "/dev/null", flags, STAGE_STDOUT);
    if (settings->error)
        open_as(2, settings->error, flags, STAGE_STDERR);
    else
        move(1, 2, STAGE_STDERR);
}

static void enter_directory(const struct settings *settings)
{
    if (settings->directory)
        check(call(__NR_chdir, (long)settings->directory), STAGE_DIRECTORY);
}

/*
 * Whether the working directory would be hidden: a link led there, below one of the places that are
 * private, by an entry that is not in its name.
 */
static int is_hidden(const char *directory)
{
    static const char *const places[] = {"/tmp/", "/dev/shm/"};
    char found[PATH_BYTES_MAX];
    if (call(__NR_getcwd, (long)found, (long)sizeof found) < 0)
        return 0;
    for (int each = 0; each < 2; each++) {
        const char *entry = behind(found, places[each]);
        if (!entry)
            continue;
        found[find(entry, '/') - found] = 0;
        const char *rest = behind(directory, found);
        return !rest || (*rest && *rest != '/');
    }
    return 0;
}

/*
 * The task's files are the machine's: they are opened before the namespace is entered. A file system
 * that the user serves (FUSE) lets in whose real, effective and saved user all are theirs, so the
 * process has become the user by then; of root's capabilities it still has the two that entering
 * takes, and not in effect. Where the working directory is not in the namespace, the task has the
 * machine's.
 */
static void enter_namespace(const struct settings *settings, long uid)
{
    check(call(__NR_prctl, KEEP_CAPABILITIES, 1, 0, 0, 0), STAGE_USER);
    set_user(uid);
    if (uid)
        hold_capabilities(TO_ENTER, NONE);
    enter_directory(settings);
    open_files(settings);
    if (settings->directory && is_hidden(settings->directory))
        return;
    if (uid)
        hold_capabilities(TO_ENTER, TO_ENTER);
    check(call(__NR_setns, settings->namespace, MOUNT_NAMESPACE), STAGE_NAMESPACE);
}

/*
 * Whoever has a session keyring may use every key in it, whatever their user: the one that the
 * launcher was started with has root's keys, and would be where tasks of all users meet. A new one
 * counts for root, who may have many. Where there are no keys, or a container keeps them away,
 * nothing is shared by them.
 */
static void leave_session_keyring(void)
{
    long result = call(__NR_keyctl, JOIN_SESSION_KEYRING, 0);
    if (result != -ENOSYS && result != -EPERM && result != -EACCES)
        check(result, STAGE_USER);
}

/* Become the user in the working directory, with the task's files open. */
static void become(const struct settings *settings)
{
    if (settings->user) {
        leave_session_keyring();
        long uid = take_groups(settings->user);
        if (settings->no_new_privileges)
            empty_bounding_set();
        if (settings->namespace >= 0)
            enter_namespace(settings, uid);
        else
            set_user(uid);
        if (uid || settings->no_new_privileges)
            hold_capabilities(NONE, NONE);
    }
    if (settings->no_new_privileges)
        check(call(__NR_prctl, NO_NEW_PRIVILEGES, 1, 0, 0, 0), STAGE_USER);
    enter_directory(settings);
    if (!settings->user || settings->namespace < 0)
        open_files(settings);
}

/*
 * The task begins with 0, 1 and 2 open and nothing else, whatever was inherited. Kernels before 5.11
 * lack the flag, those before 5.9 the call: there it rests on the launcher, which closes what it was
 * started with and has all of its own closed by execve.
 */
static void close_others_on_exec(void)
{
    long none = call(__NR_close_range, FIRST_OTHER, LAST_POSSIBLE, CLOSE_ON_EXEC);
    if (none >= 0 || report_fd < FIRST_OTHER)
        return;
    if (report_fd > FIRST_OTHER)
        call(__NR_close_range, FIRST_OTHER, report_fd - 1, 0);
    call(__NR_close_range, report_fd + 1, LAST_POSSIBLE, 0);
}

/*
 * The seat of a parallel task on a machine where nothing is started but job steps. The user can end
 * it, and nothing else: it has no descriptor of the launcher's.
 */
static __attribute__((noreturn)) void wait_for_the_end(void)
{
    call(__NR_close_range, FIRST_OTHER, LAST_POSSIBLE, 0);
    call(__NR_close, report_fd);
    for (;;)
        call(__NR_ppoll, 0, 0, 0, 0, 0);
}

static __attribute__((noreturn)) void become_task(int count, char **options, char **entries,
                                                  int namespace)
{
    struct settings settings = {.namespace = -1, .kept = -1};
    call(__NR_prctl, PARENT_DEATH_SIGNAL, SIGNAL_KILL); /* until the user changes */
    block_signals(NONE);
    int end = read_options(count, options, &settings);
    if (namespace >= 0)
        settings.namespace = namespace;
    check(call(__NR_setsid), STAGE_SESSION);
    for (int at = 1; at < end; at++)
        if (options[at][0] == 'g')
            join(options[at] + 2);
    /* Only now: a launcher that ends later is followed by one that finds this process in its
       groups, or by its mark. */
    if (settings.parent && call(__NR_getppid) != settings.parent)
        fail(STAGE_PARENT, ESRCH);
    if (settings.background)
        give_way(settings.background);
    if (settings.halts)
        call(__NR_kill, call(__NR_getpid), SIGNAL_STOP);
    if (settings.terminal)
        check(call(__NR_ioctl, 0, SET_CONTROLLING_TERMINAL, 0), STAGE_TERMINAL);
    for (int at = 1; at < end; at++)
        if (options[at][0] == 'l')
            limit(options[at] + 2);
    if (settings.processors)
        bind_to(settings.processors);
    call(__NR_umask, TASK_UMASK);
    become(&settings);
    close_others_on_exec();
    if (settings.kept >= 0)
        call(__NR_fcntl, settings.kept, F_SETFD, 0);
    call(__NR_prctl, PARENT_DEATH_SIGNAL, 0);
    if (settings.waits)
        wait_for_the_end();
    char **arguments = options + end + 1;
    char **environment = task_environment(entries);
    int is_path = *find(arguments[0], '/') == '/';
    fail(STAGE_EXEC, is_path ? execute(arguments[0], arguments, environment)
                             : search(arguments, environment));
}

/* One message: a number of words, these, and the entries of the environment, each with its 0. */
static struct {
    int32_t count;
    char text[REQUEST_BYTES_MAX];
} request;
static char *words[REQUEST_BYTES_MAX + 2];

/*
 * Receive a message; returns its size without the number in front. *passed is the descriptor that
 * came with it, -1 for none. Ends this process where there are no more, or one is no message.
 */
static long receive(long fd, int *passed)
{
    struct iovec part = {&request, sizeof request - 1};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } beside;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = &beside, .msg_controllen = sizeof beside};
    long size = call(__NR_recvmsg, fd, (long)&message, MSG_CMSG_CLOEXEC);
    if (size <= (long)sizeof request.count || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        call(__NR_exit_group, size ? EXIT_NOT_RUN : 0);
    *passed = message.msg_controllen >= CMSG_LEN(sizeof(int)) ? *(int *)CMSG_DATA(&beside.header)
                                                              : -1;
    return size - (long)sizeof request.count;
}

/* Find the words in the first `size` bytes of the text; the entries stand behind a NULL. */
static void find_words(long size)
{
    char *text = request.text, *end = request.text + size;
    long place = 0;
    *end = 0;
    while (text < end) {
        if (place == request.count)
            words[place++] = NULL;
        words[place++] = text;
        text = (char *)find(text, 0) + 1;
    }
    if (request.count < 1 || place < request.count)
        call(__NR_exit_group, EXIT_NOT_RUN);
    words[place] = words[place + (place == request.count)] = NULL;
}

/*
 * Start a task for each message, and answer with its process id or a negative error number. This
 * process is small and has four descriptors, so a copy of it is made in half the time that it takes
 * to start this program; and by CLONE_PARENT the copy is a child of the launcher, who alone waits
 * for it. It ends with the launcher. Nothing that a user sends is acted upon here.
 */
static __attribute__((noreturn)) void serve(long fd)
{
    /* As struct clone_args: of eight numbers the flags alone; the exit signal is this process's. */
    uint64_t copy[8] = {CHILD_OF_PARENT};
    block_signals(~(uint64_t)0);
    check(call(__NR_setsid), STAGE_SESSION);
    for (;;) {
        int namespace;
        find_words(receive(fd, &namespace));
        int32_t pid = (int32_t)call(__NR_clone3, (long)copy, (long)sizeof copy);
        if (!pid) {
            call(__NR_close, fd);
            become_task(request.count, words, words + request.count + 1, namespace);
        }
        if (namespace >= 0)
            call(__NR_close, namespace);
        call(__NR_write, fd, (long)&pid, (long)sizeof pid);
    }
}

int main(int count, char **options, char **entries)
{
    int priority = 0;
    call(__NR_prctl, PARENT_DEATH_SIGNAL, SIGNAL_KILL);
    call(__NR_sched_setscheduler, 0, ORDINARY_SCHEDULING, (long)&priority);
    reset_signals();
    const char *socket = count == 2 ? behind(options[1], "s=") : NULL;
    if (socket)
        serve((long)number(&socket, 0));
    become_task(count, options, entries, -1);
}
