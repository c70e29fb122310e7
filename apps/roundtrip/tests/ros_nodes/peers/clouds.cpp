// Prints sequence number, number of points and the first point of every sensor_msgs/PointCloud2 of
// /points.
#include <ros/ros.h>
#include <sensor_msgs/PointCloud2.h>
#include <sensor_msgs/point_cloud2_iterator.h>

#include <cstdio>

void receive(const sensor_msgs::PointCloud2ConstPtr& cloud) {
  const unsigned count = cloud->width * cloud->height;
  if (count == 0) return;
  sensor_msgs::PointCloud2ConstIterator<float> x(*cloud, "x"), y(*cloud, "y"), z(*cloud, "z");
  std::printf("%u %u %.9g %.9g %.9g\n", cloud->header.seq, count, *x, *y, *z);
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  ros::init(argc, argv, "clouds_cpp", ros::init_options::AnonymousName);
  ros::NodeHandle node;
  ros::Subscriber clouds = node.subscribe("/points", 5, receive);
  ros::spin();
}
