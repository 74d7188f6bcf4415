/*
 * iriai-exec: what stands between the launcher and a task.
 *
 * The launcher starts it by posix_spawn. It joins the task's control groups, drops to the task's
 * user, opens its files as that user and becomes the task by execve. It is small and static, so
 * that it costs little, and it does between fork and exec what posix_spawn cannot do.
 * docs/adr/0010-launcher-helper.md argues it; iriai_exec.py is the same program in Python.
 *
 * Arguments, in any order, up to "--"; then the task's own argument vector:
 *   p=PID              the launcher; without it as parent nothing is run
 *   r=FD               where a failure is reported: struct report, in one write
 *   g=PATH             a control group's file of members; "0" is written to it (repeatable)
 *   l=RESOURCE:SOFT:HARD   a resource limit by its number (repeatable)
 *   u=UID:GID:G,G,...  user, group and supplementary groups; without it the user stays
 *   d=PATH             working directory
 *   i=PATH             standard input; without it descriptor 0 stays as it is
 *   o=PATH e=PATH      standard output and error, appended to, made where missing;
 *                      without e= standard error goes where standard output goes
 *   k=                 both outputs stay as they are
 *   t=                 descriptor 0 becomes the controlling terminal
 *   x=PATH             the program to execute; without it the task's first argument, found in PATH
 *
 * Environment: entries that begin with ':' are the task's, without the colon; all others are
 * dropped. So a variable that a dynamic loader would act upon (LD_PRELOAD) has no effect here,
 * where the user's word is not yet to be trusted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The order is part of the contract with failures.py. */
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
    STAGE_EXEC
};

struct report {
    int32_t pid;
    int32_t stage;
    int32_t error;
};

enum { GROUPS_MAX = 65536, TASK_UMASK = 022, FILE_MODE = 0666, EXIT_NOT_RUN = 126 };

static int report_fd = -1;

static void fail(enum stage stage, int error)
{
    struct report report = {getpid(), (int32_t)stage, error};
    if (report_fd >= 0 && write(report_fd, &report, sizeof report) < 0)
        _exit(EXIT_NOT_RUN);
    _exit(EXIT_NOT_RUN);
}

/* The number that *text begins with; *text then stands behind it and behind one separator. */
static long long number(const char **text, char separator)
{
    char *end;
    errno = 0;
    long long value = strtoll(*text, &end, 10);
    if (errno || end == *text)
        fail(STAGE_ARGUMENTS, EINVAL);
    if (*end == separator)
        end++;
    else if (*end)
        fail(STAGE_ARGUMENTS, EINVAL);
    *text = end;
    return value;
}

static void reset_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int signal_number = 1; signal_number < NSIG; signal_number++)
        sigaction(signal_number, &standard, NULL); /* refused for KILL, STOP and libc's own */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void join(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        fail(STAGE_GROUP, errno);
    close(fd);
}

static void limit(const char *text)
{
    int resource = (int)number(&text, ':');
    struct rlimit values;
    values.rlim_cur = (rlim_t)number(&text, ':');
    values.rlim_max = (rlim_t)number(&text, ':');
    if (setrlimit((__rlimit_resource_t)resource, &values) != 0)
        fail(STAGE_LIMIT, errno);
}

static void become(const char *text)
{
    uid_t uid = (uid_t)number(&text, ':');
    gid_t gid = (gid_t)number(&text, ':');
    size_t count = 0;
    size_t room = strlen(text) / 2 + 1;
    gid_t *groups = room <= GROUPS_MAX * 8 ? malloc(room * sizeof *groups) : NULL;
    if (!groups)
        fail(STAGE_USER, ENOMEM);
    while (*text)
        groups[count++] = (gid_t)number(&text, ',');
    if (setgroups(count, groups) != 0 || setresgid(gid, gid, gid) != 0 ||
        setresuid(uid, uid, uid) != 0)
        fail(STAGE_USER, errno);
    free(groups);
}

static void open_as(int target, const char *path, int flags, enum stage stage)
{
    int fd = open(path, flags | O_NOCTTY, FILE_MODE);
    if (fd < 0 || (fd != target && (dup2(fd, target) < 0 || close(fd) < 0)))
        fail(stage, errno);
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

/* Returns only where path could not be executed. A text without #! is given to the shell. */
static void execute(const char *path, char **arguments, char **environment)
{
    execve(path, arguments, environment);
    if (errno != ENOEXEC)
        return;
    size_t count = 0;
    while (arguments[count])
        count++;
    const char **shell = malloc((count + 3) * sizeof *shell);
    if (!shell)
        return;
    shell[0] = "/bin/sh";
    shell[1] = path;
    memcpy(shell + 2, arguments + 1, count * sizeof *shell);
    execve(shell[0], (char **)shell, environment);
}

/* As a shell would: each directory of PATH in turn; "not permitted" outweighs "not there". */
static void search(char **arguments, char **environment)
{
    const char *path = "/usr/local/bin:/usr/bin:/bin";
    size_t name_length = strlen(arguments[0]);
    int error = ENOENT;
    for (char **entry = environment; *entry; entry++)
        if (strncmp(*entry, "PATH=", 5) == 0)
            path = *entry + 5;
    for (const char *end = path; end; path = end + 1) {
        end = strchr(path, ':');
        size_t length = end ? (size_t)(end - path) : strlen(path);
        char *full = malloc(length + name_length + 3);
        if (!full)
            fail(STAGE_EXEC, ENOMEM);
        memcpy(full, length ? path : ".", length ? length : 1);
        length = length ? length : 1;
        full[length] = '/';
        memcpy(full + length + 1, arguments[0], name_length + 1);
        execute(full, arguments, environment);
        if (errno == EACCES || (errno != ENOENT && errno != ENOTDIR && error == ENOENT))
            error = errno;
        free(full);
        if (!end)
            break;
    }
    fail(STAGE_EXEC, error);
}

int main(int count, char **options)
{
    const char *user = NULL, *directory = NULL, *input = NULL, *output = NULL, *error = NULL;
    const char *program = NULL;
    long parent = 0;
    int keep_outputs = 0, terminal = 0, first = 1;

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* until the user changes; then the parent check holds */
    for (; first < count && strcmp(options[first], "--") != 0; first++) {
        const char *value = options[first] + 1;
        if (*value != '=')
            fail(STAGE_ARGUMENTS, EINVAL);
        value++;
        switch (options[first][0]) {
        case 'p': parent = (long)number(&value, 0); break;
        case 'r':
            report_fd = (int)number(&value, 0);
            fcntl(report_fd, F_SETFD, FD_CLOEXEC);
            break;
        case 'u': user = value; break;
        case 'd': directory = value; break;
        case 'i': input = value; break;
        case 'o': output = value; break;
        case 'e': error = value; break;
        case 'k': keep_outputs = 1; break;
        case 't': terminal = 1; break;
        case 'x': program = value; break;
        case 'g':
        case 'l': break; /* below, when their turn has come */
        default: fail(STAGE_ARGUMENTS, EINVAL);
        }
    }
    if (first + 1 >= count)
        fail(STAGE_ARGUMENTS, EINVAL);

    reset_signals();
    if (setsid() < 0)
        fail(STAGE_SESSION, errno);
    for (int each = 1; each < first; each++)
        if (options[each][0] == 'g')
            join(options[each] + 2);
    /* Only now: a launcher that dies later finds this process in its groups or by its mark. */
    if (parent && getppid() != (pid_t)parent)
        fail(STAGE_PARENT, ESRCH);
    if (terminal && ioctl(0, TIOCSCTTY, 0) != 0)
        fail(STAGE_TERMINAL, errno);
    for (int each = 1; each < first; each++)
        if (options[each][0] == 'l')
            limit(options[each] + 2);
    if (user)
        become(user);
    umask(TASK_UMASK);
    if (directory && chdir(directory) != 0)
        fail(STAGE_DIRECTORY, errno);
    if (input)
        open_as(0, input, O_RDONLY, STAGE_STDIN);
    if (!keep_outputs) {
        int flags = O_WRONLY | O_APPEND | O_CREAT;
        open_as(1, output ? output : "/dev/null", flags, STAGE_STDOUT);
        if (error)
            open_as(2, error, flags, STAGE_STDERR);
        else if (dup2(1, 2) < 0)
            fail(STAGE_STDERR, errno);
    }
    char **arguments = options + first + 1;
    char **environment = task_environment(environ);
    prctl(PR_SET_PDEATHSIG, 0);
    if (program || strchr(arguments[0], '/')) {
        execute(program ? program : arguments[0], arguments, environment);
        fail(STAGE_EXEC, errno);
    }
    search(arguments, environment);
}
