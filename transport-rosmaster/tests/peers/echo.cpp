// Sends every message of /in back on /out; says "ready" once both directions are connected.
#include <ros/callback_queue.h>
#include <ros/ros.h>
#include <std_msgs/UInt8MultiArray.h>

#include <cstdio>

int main(int argc, char** argv) {
  ros::init(argc, argv, "echo_cpp", ros::init_options::AnonymousName);
  ros::NodeHandle node;
  ros::Publisher out = node.advertise<std_msgs::UInt8MultiArray>("/out", 20);
  boost::function<void(const std_msgs::UInt8MultiArrayConstPtr&)> echo =
      [&out](const std_msgs::UInt8MultiArrayConstPtr& message) { out.publish(message); };
  ros::Subscriber in = node.subscribe<std_msgs::UInt8MultiArray>(
      "/in", 20, echo, ros::VoidConstPtr(), ros::TransportHints().tcpNoDelay());
  while (ros::ok() && out.getNumSubscribers() == 0) {
    ros::getGlobalCallbackQueue()->callAvailable(ros::WallDuration(0.01));
  }
  std::puts("ready");
  std::fflush(stdout);
  ros::spin();
}
