/* A file system that can neither rename folders nor link files, as a mounted object store: loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int is_store(const char *path) {
  const char *root = getenv("SANGAM_TEST_STORE");
  return root && path[0] == '/' && strncmp(path, root, strlen(root)) == 0;
}

static int refuses(const char *from, const char *to) {
  struct stat found;
  if (!is_store(from) && !is_store(to)) return 0;
  return lstat(from, &found) == 0 && S_ISDIR(found.st_mode);
}

int rename(const char *from, const char *to) {
  if (refuses(from, to)) { errno = EOPNOTSUPP; return -1; }
  return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(from, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
  if (refuses(from, to)) { errno = EOPNOTSUPP; return -1; }
  return ((int (*)(int, const char *, int, const char *))dlsym(RTLD_NEXT, "renameat"))(from_dir, from, to_dir, to);
}

int link(const char *from, const char *to) {
  if (is_store(to)) { errno = EOPNOTSUPP; return -1; }
  return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "link"))(from, to);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  if (is_store(to)) { errno = EOPNOTSUPP; return -1; }
  return ((int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat"))(from_dir, from, to_dir, to,
                                                                                          flags);
}

int symlink(const char *to, const char *path) {
  if (is_store(path)) { errno = EOPNOTSUPP; return -1; }
  return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "symlink"))(to, path);
}
