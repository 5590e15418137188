/* The clock of the day, moved by an offset that a file has: loaded by LD_PRELOAD. Monotonic clocks stay as they are.
   Times of files are the machine's own. Absolute deadlines by the moved clock are moved back before the kernel sees them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define LEAST_S 1000000000 /* A deadline below it, in 2001, is one by a monotonic clock. */

static const volatile int64_t *moved;
static int (*real_clock)(clockid_t, struct timespec *);
static long (*real_syscall)(long, ...);
static int (*real_sem)(sem_t *, const struct timespec *);
static int (*real_cond)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_mutex)(pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void) {
  real_clock = dlsym(RTLD_NEXT, "clock_gettime");
  real_syscall = dlsym(RTLD_NEXT, "syscall");
  real_sem = dlsym(RTLD_NEXT, "sem_timedwait");
  real_cond = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!real_cond) real_cond = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  real_mutex = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
  const char *path = getenv("SANGAM_LOOP_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (mapped != MAP_FAILED) moved = mapped;
}

static struct timespec plus(const struct timespec *time, int64_t nanoseconds) {
  int64_t sum = time->tv_sec * SECOND + time->tv_nsec + nanoseconds;
  struct timespec result = {sum / SECOND, sum % SECOND};
  return result;
}

static struct timespec deadline(const struct timespec *given) {
  return moved && given->tv_sec >= LEAST_S ? plus(given, -*moved) : *given;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (!real_clock) real_clock = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real_clock(clock, time);
  if (!failed && moved && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *time = plus(time, *moved);
  return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *result) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (result) *result = now.tv_sec;
  return now.tv_sec;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
  struct timespec own = deadline(until);
  return real_sem(semaphore, &own);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
  struct timespec own = deadline(until);
  return real_cond(cond, mutex, &own);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
  struct timespec own = deadline(until);
  return real_mutex(mutex, &own);
}

long syscall(long number, ...) {
  va_list list;
  long given[6];
  va_start(list, number);
  for (int n = 0; n < 6; n++) given[n] = va_arg(list, long);
  va_end(list);
  struct timespec own;
  if (number == SYS_futex && given[3] && (given[1] & FUTEX_CLOCK_REALTIME) &&
      (given[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
    own = deadline((const struct timespec *)given[3]);
    given[3] = (long)&own;
  }
  return real_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}
