/* NVIDIA's library as far as iriai calls it: what runs on the GPUs of this machine stands in a file.
 *
 * Each line of it is a GPU: `7: 12 13` has two processes and answers with code 7 at first (too
 * small), `0:` has none, `15:` is lost. The path is compiled in. A first line `hang` never answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu, compute;
} process;

static int line_of(unsigned int gpu, char *line, size_t size)
{
    FILE *file = fopen(PATH, "r");
    int found = 0;
    while (file != NULL && fgets(line, (int)size, file) != NULL)
        if (found++ == (int)gpu)
            break;
    if (file != NULL)
        fclose(file);
    return found == (int)gpu + 1;
}

int nvmlInit_v2(void)
{
    return access(PATH, R_OK) == 0 ? 0 : 9; /* the driver is not loaded */
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    static char line[1 << 18];
    if (line_of(0, line, sizeof line) && strncmp(line, "hang", 4) == 0)
        sleep(600);
    for (*count = 0; line_of(*count, line, sizeof line); ++*count)
        ;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int gpu, void **handle)
{
    static char line[1 << 18];
    *handle = (void *)(size_t)(gpu + 1);
    return line_of(gpu, line, sizeof line) && atoi(line) == 15 ? 15 : 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, process *found)
{
    static char line[1 << 18];
    unsigned int room = *count, number = 0;
    char *word;
    if (!line_of((unsigned int)(size_t)handle - 1, line, sizeof line))
        return 1;
    strtok(line, ": \n");
    while ((word = strtok(NULL, " \n")) != NULL) {
        if (number < room)
            found[number] = (process){(unsigned int)strtoul(word, NULL, 10), 1 << 30, 0, 0};
        ++number;
    }
    *count = number;
    return number > room ? 7 : 0;
}
