/* Keeps a process that only its own machine may reach from listening anywhere else: preloaded, it comes before libc's
 * bind(). tf.data's servers (tensorflow/core/data/service/server_lib.cc) know no address but 0.0.0.0, and Gloo takes
 * that of the machine's name for the sets of processes that Horovod makes. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

typedef int (*bind_t)(int, const struct sockaddr *, socklen_t);

/* Clients of other kinds, such as a resolver's sockets, must still reach the world. */
static int is_stream(int fd) {
  int type = 0;
  socklen_t length = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
}

static int is_loopback4(const unsigned char *bytes) { return bytes[0] == 127; }

int bind(int fd, const struct sockaddr *address, socklen_t length) {
  bind_t next = (bind_t)dlsym(RTLD_NEXT, "bind");
  if (address == NULL || !is_stream(fd)) return next(fd, address, length);
  if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
    struct sockaddr_in own;
    memcpy(&own, address, sizeof own);
    if (!is_loopback4((const unsigned char *)&own.sin_addr)) own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return next(fd, (const struct sockaddr *)&own, sizeof own);
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
    struct sockaddr_in6 own;
    memcpy(&own, address, sizeof own);
    const unsigned char *bytes = own.sin6_addr.s6_addr;
    if (IN6_IS_ADDR_LOOPBACK(&own.sin6_addr) || (IN6_IS_ADDR_V4MAPPED(&own.sin6_addr) && is_loopback4(bytes + 12)))
      return next(fd, address, length);
    /* A socket for both families, as gRPC's, is reached as 127.0.0.1; one for IPv6 alone as ::1. */
    int only_v6 = 0;
    socklen_t size = sizeof only_v6;
    getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, &size);
    static const unsigned char mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    if (only_v6)
      own.sin6_addr = in6addr_loopback;
    else
      memcpy(own.sin6_addr.s6_addr, mapped, sizeof mapped);
    return next(fd, (const struct sockaddr *)&own, sizeof own);
  }
  return next(fd, address, length);
}
