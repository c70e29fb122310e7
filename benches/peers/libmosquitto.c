// The C library of MQTT, threaded as its documentation has it: `mosquitto_loop_start` runs a thread
// for each of two connections, one that publishes and one that receives; what arrives is handed
// over to the thread of the app.
//
// ask|echo URL REQUESTS ANSWERS
#include "end.h"

#include <errno.h>
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <stdbool.h>
#include <string.h>

enum { KEEP_ALIVE = 60 };

static const char* published;
static const char* subscribed;
static struct mosquitto* publisher;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static bool active = false;
// A ring of what arrived.
static struct mosquitto_message arrived[DEPTH];
static size_t first = 0;
static size_t count = 0;

static void check(const char* what, int outcome) {
  if (outcome == MOSQ_ERR_ERRNO) fail(what, strerror(errno));
  if (outcome != MOSQ_ERR_SUCCESS) fail(what, mosquitto_strerror(outcome));
}

static void on_connect(struct mosquitto* client, void* unused, int reason) {
  (void)unused;
  if (reason != 0) fail("connect", mosquitto_reason_string(reason));
  if (client != publisher) check("subscribe", mosquitto_subscribe(client, NULL, subscribed, 0));
}

static void on_disconnect(struct mosquitto* client, void* unused, int reason) {
  (void)client;
  (void)unused;
  fail("connection", mosquitto_strerror(reason));
}

static void on_subscribe(struct mosquitto* client, void* unused, int id, int topics,
                         const int* granted) {
  (void)client;
  (void)unused;
  (void)id;
  if (topics != 1 || granted[0] != 0) fail("subscribe", "refused");
  pthread_mutex_lock(&lock);
  active = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

// The library frees the message after this, so what is handed over is a copy.
static void on_message(struct mosquitto* client, void* unused,
                       const struct mosquitto_message* message) {
  (void)client;
  (void)unused;
  struct mosquitto_message copy;
  check("copy", mosquitto_message_copy(&copy, message));
  pthread_mutex_lock(&lock);
  while (count == DEPTH) pthread_cond_wait(&changed, &lock);
  arrived[(first + count++) % DEPTH] = copy;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

// Waits for the next message, at most `patience` milliseconds.
static long next(int patience) {
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += patience / 1000;
  end.tv_nsec += patience % 1000 * 1000000l;
  if (end.tv_nsec >= 1000000000l) {
    end.tv_sec++;
    end.tv_nsec -= 1000000000l;
  }
  pthread_mutex_lock(&lock);
  while (count == 0) {
    if (patience < 0) {
      pthread_cond_wait(&changed, &lock);
    } else if (pthread_cond_timedwait(&changed, &lock, &end) == ETIMEDOUT) {
      pthread_mutex_unlock(&lock);
      return -1;
    }
  }
  struct mosquitto_message message = arrived[first];
  first = (first + 1) % DEPTH;
  count--;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  long length = message.payloadlen;
  mosquitto_message_free_contents(&message);
  return length;
}

static void publish(const uint8_t* bytes, size_t length) {
  check("publish", mosquitto_publish(publisher, NULL, published, (int)length, bytes, 0, false));
}

static struct mosquitto* new_client(const char* role) {
  char id[64];
  snprintf(id, sizeof id, "libmosquitto-%d-%s", (int)getpid(), role);
  struct mosquitto* client = mosquitto_new(id, true, NULL);
  if (client == NULL) fail("mosquitto_new", strerror(errno));
  check("protocol", mosquitto_int_option(client, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5));
  check("nodelay", mosquitto_int_option(client, MOSQ_OPT_TCP_NODELAY, 1));
  mosquitto_connect_callback_set(client, on_connect);
  mosquitto_disconnect_callback_set(client, on_disconnect);
  return client;
}

static void start(struct mosquitto* client, const char* host, int port) {
  check("connect", mosquitto_connect(client, host, port, KEEP_ALIVE));
  check("loop", mosquitto_loop_start(client));
}

int main(int argc, char** argv) {
  if (argc != 5) fail("arguments", "ask|echo URL REQUESTS ANSWERS");
  bool asks = strcmp(argv[1], "ask") == 0;
  char host[64];
  int port;
  if (sscanf(argv[2], "mqtt://%63[^:]:%d", host, &port) != 2) fail("URL", argv[2]);
  published = asks ? argv[3] : argv[4];
  subscribed = asks ? argv[4] : argv[3];

  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &monotonic);

  check("start", mosquitto_lib_init());
  publisher = new_client("pub");
  struct mosquitto* subscriber = new_client("sub");
  mosquitto_subscribe_callback_set(subscriber, on_subscribe);
  mosquitto_message_callback_set(subscriber, on_message);
  start(publisher, host, port);
  start(subscriber, host, port);
  pthread_mutex_lock(&lock);
  while (!active) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);

  if (asks) {
    int major, minor, revision;
    mosquitto_lib_version(&major, &minor, &revision);
    char settings[128];
    snprintf(settings, sizeof settings,
             "libmosquitto %d.%d.%d: nodelay=true, connections=2, qos=0, protocol=5, depth=%d", major,
             minor, revision, DEPTH);
    ask((Asker){publish, next}, settings);
  }
  static const uint8_t answer[ANSWER];
  end_with_input();
  say_ready(argv[2]);
  for (;;) publish(answer, answer_length((size_t)next(-1)));
}
