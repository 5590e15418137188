// Threads of our own: TensorFlow's C interface gives kernels none of its pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace sangam {

// Threads that wait for work as long as the process lives, so that what each keeps (`scratch`) is kept.
class Threads {
 public:
  // Runs work(0) .. work(count - 1) on up to `threads` threads, the caller's among them. The first exception is thrown
  // when all have ended.
  static void run(int64_t count, int64_t threads, const std::function<void(int64_t)>& work) {
    if (count <= 1 || threads <= 1) {
      for (int64_t number = 0; number < count; ++number) work(number);
      return;
    }
    static Threads& pool = *new Threads;  // Never destroyed: its threads run until the process ends.
    Job job{work, count};
    int64_t helpers = std::min(threads, count) - 1;
    pool.add(job, helpers);
    job.take_all();
    std::unique_lock lock(pool.mutex_);
    // Who has not begun yet finds nothing to do, and is not waited for.
    pool.waiting_.erase(std::remove(pool.waiting_.begin(), pool.waiting_.end(), &job), pool.waiting_.end());
    pool.ended_.wait(lock, [&] { return job.helping == 0; });
    if (job.failure) std::rethrow_exception(job.failure);
  }

 private:
  struct Job {
    const std::function<void(int64_t)>& work;
    int64_t count;
    std::atomic<int64_t> next{0};
    int64_t helping = 0;  // Guarded by the pool's mutex, as is `failure` by its own.
    std::mutex failed;
    std::exception_ptr failure;

    void take_all() {
      for (int64_t number = next++; number < count; number = next++) {
        try {
          work(number);
        } catch (...) {
          std::lock_guard lock(failed);
          if (!failure) failure = std::current_exception();
        }
      }
    }
  };

  void add(Job& job, int64_t helpers) {
    std::lock_guard lock(mutex_);
    for (; threads_ < helpers; ++threads_) std::thread([this] { help(); }).detach();
    for (int64_t n = 0; n < helpers; ++n) waiting_.push_back(&job), added_.notify_one();
  }

  void help() {
    std::unique_lock lock(mutex_);
    while (true) {
      added_.wait(lock, [&] { return !waiting_.empty(); });
      Job& job = *waiting_.front();
      waiting_.pop_front();
      ++job.helping;
      lock.unlock();
      job.take_all();
      lock.lock();
      if (--job.helping == 0) ended_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_, ended_;
  std::deque<Job*> waiting_;
  int64_t threads_ = 0;
};

}  // namespace sangam
