// A network between namespaces: `wire RATE_BITS_S RTT_US NAMESPACE...`, as root.
//
// Each namespace gets a device `wire` whose packets come here, wait as long as a network interface of that rate and half
// the round trip would take, and go to the namespace that their address names (10.77.0.1 is the first). Nothing is lost.
// Linux has this as netem, which not every kernel is built with. RATE 0: without a limit.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { kHosts = 16, kPacket = 65536, kQueue = 16384 };

typedef struct {
  double due_s;
  int bytes;
  char* data;
} Packet;

// Packets of one direction leave in the order in which they came.
typedef struct {
  Packet packets[kQueue];
  unsigned head, tail;
} Queue;

static Queue queues[kHosts][kHosts];
static int devices[kHosts];
static double sent_until_s[kHosts], received_until_s[kHosts];

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec / 1e9;
}

static int device_in(const char* name) {
  char path[256];
  snprintf(path, sizeof path, "/var/run/netns/%s", name);
  int space = open(path, O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) return -1;
  close(space);
  int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  struct ifreq request;
  memset(&request, 0, sizeof request);
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  strcpy(request.ifr_name, "wire");
  return device >= 0 && ioctl(device, TUNSETIFF, &request) == 0 ? device : -1;
}

static double later(double a, double b) { return a > b ? a : b; }

static void take(int from, int hosts, double rate, double delay_s) {
  static char data[kPacket];
  for (int bytes; (bytes = read(devices[from], data, sizeof data)) > 0;) {
    int to = (unsigned char)data[19] - 1;
    if (bytes < 20 || data[0] >> 4 != 4 || to < 0 || to >= hosts) continue;
    Queue* queue = &queues[from][to];
    if (queue->tail - queue->head == kQueue) continue;
    double takes_s = rate > 0 ? bytes * 8 / rate : 0;
    sent_until_s[from] = later(now_s(), sent_until_s[from]) + takes_s;
    received_until_s[to] = later(sent_until_s[from] + delay_s, received_until_s[to] + takes_s);
    Packet* packet = &queue->packets[queue->tail++ % kQueue];
    packet->due_s = received_until_s[to];
    packet->bytes = bytes;
    packet->data = malloc(bytes);
    memcpy(packet->data, data, bytes);
  }
}

// Returns when the next packet is due.
static double give(int hosts) {
  double next_s = 1e300;
  for (int from = 0; from < hosts; from++)
    for (int to = 0; to < hosts; to++)
      for (Queue* queue = &queues[from][to]; queue->head != queue->tail; queue->head++) {
        Packet* packet = &queue->packets[queue->head % kQueue];
        if (packet->due_s > now_s()) {
          next_s = packet->due_s < next_s ? packet->due_s : next_s;
          break;
        }
        if (write(devices[to], packet->data, packet->bytes) < 0) perror("wire: write");
        free(packet->data);
      }
  return next_s;
}

int main(int count, char** values) {
  int hosts = count - 3;
  if (hosts < 1 || hosts > kHosts) return 2;
  double rate = atof(values[1]), delay_s = atof(values[2]) / 2e6;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct pollfd waits[kHosts + 1];
  for (int host = 0; host < hosts; host++) {
    devices[host] = device_in(values[3 + host]);
    if (devices[host] < 0) {
      perror(values[3 + host]);
      return 1;
    }
    waits[host] = (struct pollfd){devices[host], POLLIN, 0};
  }
  // Before the ranks, whose computation would delay every packet.
  struct sched_param urgent = {.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &urgent) != 0) perror("wire: not urgent");
  int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  waits[hosts] = (struct pollfd){timer, POLLIN, 0};
  puts("ready");
  fflush(stdout);
  for (;;) {
    double next_s = give(hosts);
    struct itimerspec at = {{0, 0}, {0, 0}};  // Never.
    if (next_s < 1e299) {
      at.it_value.tv_sec = (time_t)next_s;
      at.it_value.tv_nsec = (long)((next_s - (time_t)next_s) * 1e9);
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
    if (poll(waits, hosts + 1, -1) < 0) return 1;
    for (int host = 0; host < hosts; host++) take(host, hosts, rate, delay_s);
  }
}
