// The C++ library of ROS 1: publishers and subscribers of bytes, TCP_NODELAY asked for, and
// callbacks called by the thread of the app, which the library hands messages over to.
//
// ask|echo URL REQUESTS ANSWERS. The library knows its master from ROS_MASTER_URI.
#include "end.h"

#include <ros/callback_queue.h>
#include <ros/ros.h>

#include <cstring>
#include <string>
#include <vector>

// Bytes as a message, copied once in each direction.
struct Bytes {
  const uint8_t* begin = nullptr;
  uint32_t length = 0;
  // Holds them after they arrived.
  std::vector<uint8_t> arrived;
};

namespace ros {
namespace message_traits {
template <>
struct IsMessage<Bytes> : TrueType {};
template <>
struct MD5Sum<Bytes> {
  static const char* value() { return "42424242424242424242424242424242"; }
  static const char* value(const Bytes&) { return value(); }
};
template <>
struct DataType<Bytes> {
  static const char* value() { return "benches/Bytes"; }
  static const char* value(const Bytes&) { return value(); }
};
template <>
struct Definition<Bytes> {
  static const char* value() { return "uint8[] bytes"; }
  static const char* value(const Bytes&) { return value(); }
};
}  // namespace message_traits

namespace serialization {
template <>
struct Serializer<Bytes> {
  static void write(OStream& stream, const Bytes& message) {
    std::memcpy(stream.advance(message.length), message.begin, message.length);
  }
  static void read(IStream& stream, Bytes& message) {
    message.length = stream.getLength();
    const uint8_t* begin = stream.advance(message.length);
    message.arrived.assign(begin, begin + message.length);
    message.begin = message.arrived.data();
  }
  static uint32_t serializedLength(const Bytes& message) { return message.length; }
};
}  // namespace serialization
}  // namespace ros

static ros::Publisher publisher;
// The length of an answer that nobody has asked for yet.
static long answered = -1;

static void publish(const uint8_t* begin, size_t length) {
  Bytes message;
  message.begin = begin;
  message.length = static_cast<uint32_t>(length);
  publisher.publish(message);
}

static long receive(int patience) {
  ros::WallTime end = ros::WallTime::now() + ros::WallDuration(patience / 1e3);
  while (answered < 0) {
    ros::WallDuration left(1);
    if (patience >= 0) {
      left = end - ros::WallTime::now();
      if (left <= ros::WallDuration(0)) return -1;
    }
    if (!ros::ok()) fail("roscpp", "the node was shut down");
    ros::getGlobalCallbackQueue()->callOne(left);
  }
  long length = answered;
  answered = -1;
  return length;
}

typedef boost::shared_ptr<const Bytes> Arrived;

static ros::Subscriber subscribe(ros::NodeHandle& node, const std::string& topic,
                                 const boost::function<void(const Arrived&)>& callback) {
  return node.subscribe<Bytes>(topic, DEPTH, callback, ros::VoidConstPtr(),
                               ros::TransportHints().tcpNoDelay());
}

int main(int argc, char** argv) {
  if (argc != 5) fail("arguments", "ask|echo URL REQUESTS ANSWERS");
  std::string role = argv[1], url = argv[2], requests = argv[3], answers = argv[4];
  ros::init(argc, argv, "roscpp_" + role, ros::init_options::AnonymousName);
  ros::NodeHandle node;
  if (role == "ask") {
    publisher = node.advertise<Bytes>(requests, DEPTH);
    ros::Subscriber subscriber = subscribe(
        node, answers, [](const Arrived& message) { answered = static_cast<long>(message->length); });
    char settings[128];
    std::snprintf(settings, sizeof settings,
                  "roscpp %d.%d.%d: nodelay=true, queue=%d, one copy in each direction",
                  ROS_VERSION_MAJOR, ROS_VERSION_MINOR, ROS_VERSION_PATCH, DEPTH);
    ask(Asker{publish, receive}, settings);
  }
  publisher = node.advertise<Bytes>(answers, DEPTH);
  ros::Subscriber subscriber = subscribe(node, requests, [](const Arrived& message) {
    static const uint8_t answer[ANSWER] = {};
    publish(answer, answer_length(message->length));
  });
  end_with_input();
  say_ready(url.c_str());
  ros::spin();
  fail("roscpp", "the node was shut down");
}
