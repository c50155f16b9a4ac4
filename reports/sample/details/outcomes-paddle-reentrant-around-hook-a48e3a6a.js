part("outcomes/paddle/reentrant-around-hook", "eNqrVsrIz88u1s9LLS5JTVGyUog201FQKspMzyhRAjJiSo3MDY2VkIWUYmsBvyUPdQ==");
