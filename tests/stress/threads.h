/*
 * threads.h - the threads of the stress suite: plain pthreads with small stacks. The suite starts hundreds of them,
 * also in processes with little address space and in children of fork, where std::thread might throw.
 */
#ifndef HZ_TESTS_STRESS_THREADS_H
#define HZ_TESTS_STRESS_THREADS_H

#include <cstddef>
#include <pthread.h>

namespace threads {

inline constexpr size_t stack_bytes = size_t{256} * 1024;

/* Starts a thread; returns pthread_create's result. */
inline int start(pthread_t *thread, void *(*body)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    int error = pthread_create(thread, &attributes, body, argument);
    pthread_attr_destroy(&attributes);
    return error;
}

class Mutex {
  public:
    void lock() {
        pthread_mutex_lock(&mutex_);
    }
    void unlock() {
        pthread_mutex_unlock(&mutex_);
    }
    pthread_mutex_t *native() {
        return &mutex_;
    }

  private:
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/* A bounded queue in a fixed array, so it allocates nothing. `Item{}` means no item. */
template <size_t capacity, typename Item = void *> class Queue {
  public:
    void push(Item item) {
        mutex_.lock();
        while (count_ == capacity)
            pthread_cond_wait(&not_full_, mutex_.native());
        items_[(first_ + count_++) % capacity] = item;
        pthread_cond_signal(&not_empty_);
        mutex_.unlock();
    }

    /* The oldest item; none when the queue is closed and empty. */
    Item pop() {
        mutex_.lock();
        while (count_ == 0 && !closed_)
            pthread_cond_wait(&not_empty_, mutex_.native());
        bool any = count_ > 0;
        Item item = take();
        if (any)
            pthread_cond_signal(&not_full_);
        mutex_.unlock();
        return item;
    }

    /* False when the queue is full. */
    bool try_push(Item item) {
        mutex_.lock();
        bool room = count_ < capacity;
        if (room)
            items_[(first_ + count_++) % capacity] = item;
        mutex_.unlock();
        return room;
    }

    /* None when the queue is empty. */
    Item try_pop() {
        mutex_.lock();
        Item item = take();
        mutex_.unlock();
        return item;
    }

    void close() {
        mutex_.lock();
        closed_ = true;
        pthread_cond_broadcast(&not_empty_);
        mutex_.unlock();
    }

  private:
    Item take() {
        if (count_ == 0)
            return Item{};
        Item item = items_[first_];
        first_ = (first_ + 1) % capacity;
        count_--;
        return item;
    }

    Mutex mutex_;
    pthread_cond_t not_empty_ = PTHREAD_COND_INITIALIZER;
    pthread_cond_t not_full_ = PTHREAD_COND_INITIALIZER;
    Item items_[capacity] = {};
    size_t first_ = 0;
    size_t count_ = 0;
    bool closed_ = false;
};

} // namespace threads

#endif
