// What the ends in C and C++ have in common with those in Rust: the talk with the bench, the
// probes, and how a round trip is timed. src/part.rs, src/end.rs and src/payload.rs say the same.
#ifndef END_H
#define END_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Bytes of an answer, of a probe, and of the answer to a probe.
enum { ANSWER = 4096, PROBE = 16 };

// Probes that must come back before anything is measured.
enum { PROBES = 3 };

// Milliseconds until a probe is repeated, and how often one is: the other end may not be connected yet.
enum { PROBE_PATIENCE = 500, REPEATS = 80 };

// Messages that wait between a thread of the library and that of the app.
enum { DEPTH = 8 };

// Says why this process cannot go on, and ends it.
static void fail(const char* what, const char* why) {
  printf("failed %s: %s\n", what, why);
  fflush(stdout);
  _exit(1);
}

static void say_ready(const char* what) {
  printf("ready %s\n", what);
  fflush(stdout);
}

static size_t answer_length(size_t request) { return request == PROBE ? PROBE : ANSWER; }

// Ends this process with its standard input, whatever else it does.
static void* wait_for_end(void* unused) {
  (void)unused;
  char ignored[64];
  while (read(STDIN_FILENO, ignored, sizeof ignored) > 0) {
  }
  _exit(0);
}

static inline void end_with_input(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, wait_for_end, NULL) != 0) fail("end_with_input", "no thread");
}

// What an asking end does with its library.
typedef struct {
  void (*send)(const uint8_t* bytes, size_t length);
  // The length of the next answer; -1 if there is none within `patience` milliseconds. A patience
  // of -1 has no end.
  long (*receive)(int patience);
} Asker;

// `length` bytes that nothing compresses. What was made is kept: a shorter payload is its beginning.
static const uint8_t* payload(size_t length) {
  static uint64_t* words = NULL;
  static size_t made = 0;
  static uint64_t state = 0x9e3779b97f4a7c15;
  size_t count = length / sizeof *words + 1;
  if (count > made) {
    words = (uint64_t*)realloc(words, count * sizeof *words);
    if (words == NULL) fail("payload", "no memory");
    for (; made < count; made++) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      words[made] = state;
    }
  }
  return (const uint8_t*)words;
}

static uint64_t now_nanos(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t round_trip(Asker asker, const uint8_t* bytes, size_t length) {
  uint64_t begun = now_nanos();
  asker.send(bytes, length);
  for (;;) {
    long answer = asker.receive(-1);
    if (answer == ANSWER) return now_nanos() - begun;
    // Else it is the answer of a probe that was repeated.
    if (answer != PROBE) fail("round trip", "an answer of another length");
  }
}

static void meet(Asker asker) {
  int answered = 0;
  for (int tried = 0; answered < PROBES; tried++) {
    if (tried == REPEATS) fail("meet", "the other end did not answer");
    asker.send(payload(PROBE), PROBE);
    if (asker.receive(PROBE_PATIENCE) >= 0) answered++;
  }
}

// Meets the other end and obeys orders until there are no more.
static inline void ask(Asker asker, const char* settings) {
  meet(asker);
  say_ready(settings);
  char* line = NULL;
  size_t room = 0;
  uint64_t* times = NULL;
  while (getline(&line, &room, stdin) > 0) {
    size_t length, before, count;
    if (sscanf(line, "%zu %zu %zu", &length, &before, &count) != 3) {
      fail("read order", strtok(line, "\n"));
    }
    const uint8_t* bytes = payload(length);
    times = (uint64_t*)realloc(times, (count + 1) * sizeof *times);
    if (times == NULL) fail("read order", "no memory for the times");
    while (before-- > 0) round_trip(asker, bytes, length);
    for (size_t n = 0; n < count; n++) times[n] = round_trip(asker, bytes, length);
    for (size_t n = 0; n < count; n++) printf("%llu ", (unsigned long long)times[n]);
    printf("\n");
    fflush(stdout);
  }
  // What the library left running must not delay the end.
  _exit(0);
}

#endif
