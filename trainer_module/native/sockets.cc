// Messages between the ranks of several machines: a TCP connection for each two ranks, and one thread a process.
//
// `post` writes what the connection takes at once and leaves the rest to the thread, which also reads what comes, so that
// neither a sender nor the network waits for a rank that computes. A message has a header; its channel, number, type and
// size are checked. Nothing is negotiated: all ranks post and collect in one order.
//
// The connections are made, and their other ends identified, by trainer_module/collectives/over_tcp.py.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "trainer_module/native/messages.h"

namespace sangam {
namespace {

constexpr uint32_t kFrame = 0x53676d01;
constexpr int64_t kMaxBytes = int64_t{1} << 33;  // Of a part.
constexpr size_t kMaxUnread = 4;                 // Parts of a rank in a channel; in one order there are never more.
constexpr auto kLeave = std::chrono::seconds(5);  // A leaving rank waits for the others no longer.

struct Header {
  uint32_t format;
  uint32_t number;
  uint16_t channel;
  uint16_t type;
  uint32_t unused;
  int64_t bytes;
};

// A part that arrives or has arrived.
struct Incoming {
  Header header;
  std::unique_ptr<char[]> memory;
  int64_t capacity = 0;
};

// A part that is being sent.
struct Outgoing {
  Header header;
  std::shared_ptr<Tensor> message;
  const char* part;
  int64_t sent = 0;  // Bytes of header and part.
};

// This rank's own part of a message.
struct Own {
  uint32_t number;
  std::shared_ptr<Tensor> message;
  Part part;
};

struct Peer {
  int socket = -1;
  std::string ended;  // Why nothing more comes; empty while it may.
  std::deque<Outgoing> outgoing;
  std::array<std::deque<Incoming>, kChannels> unread;
  std::array<std::vector<Incoming>, kChannels> spare;  // Memory of parts that were read.
  // Of the thread alone:
  Incoming incoming;
  int64_t received = 0;  // Bytes of its header and part.
  std::array<uint32_t, kChannels> numbers{};
};

class Sockets : public Messages {
 public:
  // Takes the connected sockets of the other ranks, in rank order.
  Sockets(int rank, int ranks, const int* sockets)
      : Messages(rank, ranks), peers_(ranks), epoll_(epoll_create1(EPOLL_CLOEXEC)), stop_(eventfd(0, EFD_CLOEXEC)) {
    for (int other = 0; other < ranks; ++other) {
      if (other == rank) continue;
      peers_[other].socket = sockets[other];
      watch(other, EPOLL_CTL_ADD, EPOLLIN);
    }
    epoll_event event{EPOLLIN, {.u32 = static_cast<uint32_t>(rank)}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_, &event);
    thread_ = std::thread([this] { run(); });
  }

  // Sends what is left, and reads until the others have left too: a socket that is closed with unread bytes is reset, and
  // what it had sent is lost.
  ~Sockets() override {
    std::unique_lock<std::mutex> lock(mutex_);
    auto until = std::chrono::steady_clock::now() + kLeave;
    changed_.wait_until(lock, until, [&] {
      return std::all_of(peers_.begin(), peers_.end(), [](Peer& peer) { return peer.outgoing.empty(); });
    });
    for (Peer& peer : peers_)
      if (peer.socket >= 0) shutdown(peer.socket, SHUT_WR);
    changed_.wait_until(lock, until, [&] {
      return std::all_of(peers_.begin(), peers_.end(), [](Peer& peer) { return peer.socket < 0 || !peer.ended.empty(); });
    });
    lock.unlock();
    uint64_t one = 1;
    if (write(stop_, &one, sizeof one) == sizeof one) thread_.join();
    for (Peer& peer : peers_)
      if (peer.socket >= 0) close(peer.socket);
    close(epoll_);
    close(stop_);
  }

  uint32_t post(int channel, Tensor data, const std::vector<int64_t>& ends) override {
    auto message = std::make_shared<Tensor>(std::move(data));
    auto part_of = [&](int to) {
      int64_t begin = to == 0 || ends.size() == 1 ? 0 : ends[to - 1];
      return Part{message->data<char>() + begin, ends[ends.size() == 1 ? 0 : to] - begin};
    };
    std::lock_guard<std::mutex> lock(mutex_);
    uint32_t number = posted_[channel] + 1;
    for (int to = 0; to < ranks; ++to)
      if (part_of(to).bytes > kMaxBytes) refuse("data", "too large", part_of(to).bytes, "bytes of a part are at most ", kMaxBytes);
    posted_[channel] = number;
    own_[channel].push_back({number, message, part_of(rank)});
    for (int step = 1; step < ranks; ++step) {
      // Not all ranks begin with the same one.
      int to = (rank + step) % ranks;
      Peer& peer = peers_[to];
      if (!peer.ended.empty()) continue;
      Part part = part_of(to);
      Header header{kFrame, number, static_cast<uint16_t>(channel), static_cast<uint16_t>(message->type()), 0, part.bytes};
      peer.outgoing.push_back({header, message, part.memory});
      if (peer.outgoing.size() == 1 && !flush(to)) watch(to, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
    return number;
  }

  std::vector<Part> arrived(int channel, int64_t given, TF_DataType type) override {
    std::unique_lock<std::mutex> lock(mutex_);
    uint32_t number = static_cast<uint32_t>(given);
    std::deque<Own>& own = own_[channel];
    while (!own.empty() && own.front().number < given) own.pop_front();
    if (own.empty() || own.front().number != given) refuse_number(given, posted_[channel]);
    std::vector<Part> found;
    for (int from = 0; from < ranks; ++from) {
      if (from == rank) {
        if (own.front().message->type() != type) refuse_type(rank, own.front().message->type(), type);
        found.push_back(own.front().part);
        continue;
      }
      Incoming& part = next_of(from, channel, number, lock);
      if (part.header.type != type) refuse_type(from, part.header.type, type);
      found.push_back({part.memory.get(), part.header.bytes});
    }
    return found;
  }

  void release(int channel, uint32_t number) override {
    std::lock_guard<std::mutex> lock(mutex_);
    own_[channel].pop_front();
    for (Peer& peer : peers_) drop_until(peer, channel, number + 1);
  }

 private:
  // Waits for a rank's part of a number.
  Incoming& next_of(int from, int channel, uint32_t number, std::unique_lock<std::mutex>& lock) {
    Peer& peer = peers_[from];
    std::deque<Incoming>& unread = peer.unread[channel];
    std::optional<Wait> wait;
    while (true) {
      drop_until(peer, channel, number);
      if (!unread.empty()) return unread.front();
      if (!wait) wait.emplace();
      if (!peer.ended.empty()) fail(TF_UNAVAILABLE, "rank " + std::to_string(from) + " " + peer.ended);
      changed_.wait(lock);
    }
  }

  static void drop_until(Peer& peer, int channel, uint32_t number) {
    std::deque<Incoming>& unread = peer.unread[channel];
    for (; !unread.empty() && unread.front().header.number < number; unread.pop_front())
      if (peer.spare[channel].size() < 2) peer.spare[channel].push_back(std::move(unread.front()));
  }

  void watch(int other, int operation, uint32_t events) {
    epoll_event event{events, {.u32 = static_cast<uint32_t>(other)}};
    epoll_ctl(epoll_, operation, peers_[other].socket, &event);
  }

  // Notes that nothing more comes from a rank.
  void end(int other, const std::string& why) {
    Peer& peer = peers_[other];
    if (!peer.ended.empty()) return;
    peer.ended = why;
    peer.outgoing.clear();
    watch(other, EPOLL_CTL_DEL, 0);
    changed_.notify_all();
  }

  void end(int other, int error) {
    bool has_closed = error == 0 || error == ECONNRESET || error == EPIPE;
    end(other, has_closed ? "has left the job" : std::string("cannot be reached: ") + strerror(error));
  }

  // Writes what a connection takes; returns whether nothing is left. Under the lock.
  bool flush(int to) {
    Peer& peer = peers_[to];
    while (!peer.outgoing.empty()) {
      Outgoing& next = peer.outgoing.front();
      int64_t of_header = sizeof(Header), in_part = std::max<int64_t>(next.sent - of_header, 0);
      iovec pieces[2] = {{reinterpret_cast<char*>(&next.header) + std::min(next.sent, of_header),
                          static_cast<size_t>(std::max<int64_t>(of_header - next.sent, 0))},
                         {const_cast<char*>(next.part) + in_part, static_cast<size_t>(next.header.bytes - in_part)}};
      msghdr message{};
      message.msg_iov = pieces;
      message.msg_iovlen = 2;
      ssize_t sent = sendmsg(peer.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
      if (sent < 0) {
        end(to, errno);
        return true;
      }
      next.sent += sent;
      if (next.sent == of_header + next.header.bytes) peer.outgoing.pop_front();
    }
    changed_.notify_all();
    return true;
  }

  void run() {
    std::vector<epoll_event> events(ranks);
    while (true) {
      int count = epoll_wait(epoll_, events.data(), ranks, -1);
      for (int at = 0; at < count; ++at) {
        int other = static_cast<int>(events[at].data.u32);
        if (other == rank) return;
        if (events[at].events & EPOLLOUT) {
          std::lock_guard<std::mutex> lock(mutex_);
          if (peers_[other].ended.empty() && flush(other) && peers_[other].ended.empty())
            watch(other, EPOLL_CTL_MOD, EPOLLIN);
        }
        if (events[at].events & ~EPOLLOUT) receive(other);
      }
    }
  }

  // Reads what has come from a rank.
  void receive(int from) {
    Peer& peer = peers_[from];
    Header& header = peer.incoming.header;
    int64_t of_header = sizeof(Header);
    while (true) {
      bool is_header = peer.received < of_header;
      char* to = is_header ? reinterpret_cast<char*>(&header) + peer.received
                           : peer.incoming.memory.get() + (peer.received - of_header);
      int64_t wanted = is_header ? of_header - peer.received : of_header + header.bytes - peer.received;
      ssize_t got = recv(peer.socket, to, static_cast<size_t>(wanted), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      std::lock_guard<std::mutex> lock(mutex_);
      if (got <= 0) return end(from, got == 0 ? 0 : errno);
      peer.received += got;
      if (peer.received == of_header && !begin_part(from)) return;
      if (peer.received < of_header || peer.received < of_header + header.bytes) continue;
      peer.unread[header.channel].push_back(std::move(peer.incoming));
      peer.incoming = Incoming{};
      peer.received = 0;
      changed_.notify_all();
    }
  }

  // Checks a header and makes room for its part; returns whether it can be read.
  bool begin_part(int from) {
    Peer& peer = peers_[from];
    const Header header = peer.incoming.header;
    bool is_one = header.format == kFrame && header.channel < kChannels && header.bytes >= 0 &&
                  header.bytes <= kMaxBytes && header.number == peer.numbers[header.channel] + 1;
    int64_t width = is_one ? static_cast<int64_t>(TF_DataTypeSize(static_cast<TF_DataType>(header.type))) : 0;
    if (width == 0 || header.bytes % width != 0 || peer.unread[header.channel].size() == kMaxUnread) {
      end(from, "sent what is no message of this job");
      return false;
    }
    peer.numbers[header.channel] = header.number;
    std::vector<Incoming>& spare = peer.spare[header.channel];
    if (!spare.empty()) {
      peer.incoming = std::move(spare.back());
      spare.pop_back();
      peer.incoming.header = header;
    }
    if (peer.incoming.capacity < header.bytes) {
      peer.incoming.capacity = header.bytes + header.bytes / 4;
      peer.incoming.memory.reset(new (std::nothrow) char[peer.incoming.capacity]);
      if (peer.incoming.memory == nullptr) {
        end(from, "sent a message for which there is no memory, of " + std::to_string(header.bytes) + " bytes");
        return false;
      }
    }
    return true;
  }

  std::vector<Peer> peers_;
  int epoll_, stop_;
  std::mutex mutex_;  // Of all that the thread shares.
  std::condition_variable changed_;
  std::array<uint32_t, kChannels> posted_{};
  std::array<std::deque<Own>, kChannels> own_;
  std::thread thread_;
};

}  // namespace
}  // namespace sangam

// Called from Python by ctypes. Joins the ranks at the other ends of sockets, given in rank order, which are closed by
// `sangam_leave`; the one of this rank is ignored. Returns 0, or 1 where there can be no such job.
extern "C" __attribute__((visibility("default"))) int sangam_connect(int rank, int ranks, const int* sockets) noexcept {
  using namespace sangam;
  if (ranks < 1 || rank < 0 || rank >= ranks) return 1;
  try {
    joined = new Sockets(rank, ranks, sockets);
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}
