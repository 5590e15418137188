/* A disk below a folder that is full or slow while a file beside the folder says so: loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int says(const char *folder, const char *what) {
  char file[PATH_MAX];
  snprintf(file, sizeof(file), "%s.%s", folder, what);
  return access(file, F_OK) == 0;
}

static int is_below(int descriptor, const char *folder) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0) return 0;
  path[length] = 0;
  size_t of_folder = strlen(folder);
  return strncmp(path, folder, of_folder) == 0 && path[of_folder] == '/';
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  const char *folder = getenv("SANGAM_TEST_BAD_DISK");
  int before = errno;
  if (folder && is_below(descriptor, folder)) {
    if (says(folder, "slow")) usleep(100 * 1000);
    if (says(folder, "full")) { errno = ENOSPC; return -1; }
  }
  errno = before;
  return ((ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(descriptor, bytes, count);
}
