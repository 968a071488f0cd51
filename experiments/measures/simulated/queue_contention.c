/* A priority queue that threads share behind a lock; compiled and run by queue_contention.py.
 *
 *   queue_contention queue THREADS LOCK WINDOWS ACCESSES ENTRIES   LOCK is mcs or mutex
 *       prints a line per window: nanoseconds from the first start to the last end, then those of the processor by thread
 *   queue_contention pair WINDOWS ACCESSES ENTRIES
 *       the same for two threads; in every second window they write one cache line in turns, ACCESSES times each
 *   queue_contention transfers THREADS ACCESSES ENTRIES
 *       prints the cache lines of the queue per access that another of THREADS threads had, if they take turns
 *
 * An access is a pop, and a push of the entry with a later key. The queue is a binary heap that keeps its size.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE 64
#define MOST_THREADS 64
#define SPINS 2000 /* before a waiting thread gives its core away */

typedef struct { double key; int64_t value; } entry;
typedef struct node { _Alignas(LINE) _Atomic(struct node *) next; atomic_int locked; } node;

static _Alignas(LINE) _Atomic(node *) tail;
static _Alignas(LINE) pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(LINE) int64_t size;
static entry *heap;
static _Alignas(LINE) atomic_int arrived;
static _Alignas(LINE) atomic_int generation;
static _Alignas(LINE) atomic_long ball;
static int threads, windows, accesses, entries, use_mutex, with_line;
static uint64_t *starts, *ends, *cpu;

/* --- which threads have a cache line: read and write count the transfers of a coherence protocol --- */

static uint64_t *holders;
static int64_t transfers;

static inline __attribute__((always_inline)) void touch(int counting, int64_t line, int thread, int writes) {
    if (!counting) return;
    uint64_t me = 1ull << thread;
    if (writes ? holders[line] != me : !(holders[line] & me)) transfers++;
    holders[line] = writes ? me : holders[line] | me;
}
#define AT(i) (1 + (i) / (int64_t)(LINE / sizeof(entry)))

/* --- the heap --- */

static inline __attribute__((always_inline)) void push(entry added, int counting, int thread) {
    touch(counting, 0, thread, 1);
    int64_t at = size++;
    while (at > 0) {
        int64_t above = (at - 1) / 2;
        touch(counting, AT(above), thread, 0);
        if (heap[above].key <= added.key) break;
        touch(counting, AT(at), thread, 1);
        heap[at] = heap[above];
        at = above;
    }
    touch(counting, AT(at), thread, 1);
    heap[at] = added;
}

static inline __attribute__((always_inline)) entry pop(int counting, int thread) {
    touch(counting, 0, thread, 1);
    touch(counting, AT(0), thread, 0);
    entry first = heap[0], moved = heap[--size];
    touch(counting, AT(size), thread, 0);
    int64_t at = 0;
    for (;;) {
        int64_t below = 2 * at + 1;
        if (below >= size) break;
        touch(counting, AT(below), thread, 0);
        if (below + 1 < size) {
            touch(counting, AT(below + 1), thread, 0);
            if (heap[below + 1].key < heap[below].key) below++;
        }
        if (moved.key <= heap[below].key) break;
        touch(counting, AT(at), thread, 1);
        heap[at] = heap[below];
        at = below;
    }
    touch(counting, AT(at), thread, 1);
    heap[at] = moved;
    return first;
}

static inline double later(uint64_t *state) { /* xorshift: a number from 0 to 1 */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (*state >> 11) * 0x1p-53;
}

static void fill(void) {
    uint64_t state = 88172645463325252ull;
    size_t bytes = ((size_t)(entries + 2 * MOST_THREADS) * sizeof(entry) + LINE) / LINE * LINE;
    heap = aligned_alloc(LINE, bytes);
    holders = calloc(bytes / LINE + 2, sizeof *holders);
    if (!heap || !holders) exit(1);
    for (int i = 0; i < entries; i++) push((entry){later(&state), i}, 0, 0);
}

/* --- locks: a queue of waiting threads (Mellor-Crummey and Scott), or the one of the system --- */

static inline void wait_a_little(int *spins) {
    if (++*spins % SPINS == 0) sched_yield();
    else __builtin_ia32_pause();
}

static inline void lock(node *mine) {
    if (use_mutex) { pthread_mutex_lock(&mutex); return; }
    atomic_store_explicit(&mine->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&mine->locked, 1, memory_order_relaxed);
    node *before = atomic_exchange(&tail, mine);
    if (!before) return;
    atomic_store_explicit(&before->next, mine, memory_order_release);
    for (int spins = 0; atomic_load_explicit(&mine->locked, memory_order_acquire);) wait_a_little(&spins);
}

static inline void unlock(node *mine) {
    if (use_mutex) { pthread_mutex_unlock(&mutex); return; }
    node *next = atomic_load_explicit(&mine->next, memory_order_acquire);
    if (!next) {
        node *expected = mine;
        if (atomic_compare_exchange_strong(&tail, &expected, NULL)) return;
        for (int spins = 0; !(next = atomic_load_explicit(&mine->next, memory_order_acquire));) wait_a_little(&spins);
    }
    atomic_store_explicit(&next->locked, 0, memory_order_release);
}

/* --- threads --- */

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

static void meet(void) {
    int mine = atomic_load(&generation);
    if (atomic_fetch_add(&arrived, 1) == threads - 1) {
        atomic_store(&arrived, 0);
        atomic_fetch_add(&generation, 1);
        return;
    }
    for (int spins = 0; atomic_load(&generation) == mine;) wait_a_little(&spins);
}

static void *run(void *given) {
    int thread = (int)(intptr_t)given;
    node mine;
    uint64_t state = 0x9e3779b97f4a7c15ull * (uint64_t)(thread + 1);
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(thread % (int)sysconf(_SC_NPROCESSORS_ONLN), &core);
    pthread_setaffinity_np(pthread_self(), sizeof core, &core);
    for (int window = 0; window < windows; window++) {
        int one_line = with_line && window % 2;
        meet();
        size_t slot = (size_t)window * (size_t)threads + (size_t)thread;
        uint64_t cpu_began = now(CLOCK_THREAD_CPUTIME_ID);
        starts[slot] = now(CLOCK_MONOTONIC);
        for (long i = 0; i < accesses; i++) {
            if (one_line) { /* even numbers are for thread 0, odd ones for thread 1 */
                long wanted = 2L * accesses * (window / 2) + 2 * i + thread;
                for (int spins = 0; atomic_load_explicit(&ball, memory_order_acquire) != wanted;) wait_a_little(&spins);
                atomic_store_explicit(&ball, wanted + 1, memory_order_release);
                continue;
            }
            lock(&mine);
            entry first = pop(0, 0);
            unlock(&mine);
            first.key += later(&state);
            lock(&mine);
            push(first, 0, 0);
            unlock(&mine);
        }
        ends[slot] = now(CLOCK_MONOTONIC);
        cpu[slot] = now(CLOCK_THREAD_CPUTIME_ID) - cpu_began;
    }
    return NULL;
}

static int measure(void) {
    size_t slots = (size_t)windows * (size_t)threads;
    starts = calloc(slots, sizeof *starts);
    ends = calloc(slots, sizeof *ends);
    cpu = calloc(slots, sizeof *cpu);
    if (!starts || !ends || !cpu) return 1;
    pthread_t made[MOST_THREADS];
    for (int i = 0; i < threads; i++)
        if (pthread_create(&made[i], NULL, run, (void *)(intptr_t)i)) return 1;
    for (int i = 0; i < threads; i++) pthread_join(made[i], NULL);
    for (int window = 0; window < windows; window++) {
        uint64_t *from = starts + (size_t)window * (size_t)threads, *to = ends + (size_t)window * (size_t)threads;
        uint64_t start = from[0], end = to[0];
        for (int i = 1; i < threads; i++) {
            if (from[i] < start) start = from[i];
            if (to[i] > end) end = to[i];
        }
        printf("%llu", (unsigned long long)(end - start));
        for (int i = 0; i < threads; i++) printf(" %llu", (unsigned long long)cpu[(size_t)window * (size_t)threads + (size_t)i]);
        printf("\n");
    }
    return 0;
}

static int count(void) {
    uint64_t state = 1;
    for (long i = 0; i < 2L * accesses; i++) {
        if (i == accesses) transfers = 0; /* the first half only spreads the lines among the threads */
        int thread = (int)(i % threads);
        entry first = pop(1, thread);
        first.key += later(&state);
        push(first, 1, thread);
    }
    printf("%.4f\n", (double)transfers / accesses);
    return 0;
}

int main(int n, char **given) {
    if (n == 7 && !strcmp(given[1], "queue")) {
        threads = atoi(given[2]), use_mutex = !strcmp(given[3], "mutex"), windows = atoi(given[4]);
        accesses = atoi(given[5]), entries = atoi(given[6]);
    } else if (n == 5 && !strcmp(given[1], "pair")) {
        threads = 2, with_line = 1, windows = atoi(given[2]), accesses = atoi(given[3]), entries = atoi(given[4]);
    } else if (n == 5 && !strcmp(given[1], "transfers")) {
        threads = atoi(given[2]), accesses = atoi(given[3]), entries = atoi(given[4]);
    } else {
        return 2;
    }
    if (threads < 1 || threads > MOST_THREADS || entries < 1) return 2;
    fill();
    return windows ? measure() : count();
}
