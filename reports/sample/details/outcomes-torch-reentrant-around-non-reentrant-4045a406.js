part("outcomes/torch/reentrant-around-non-reentrant", "eNqrVsrIz88u1s9LLS5JTVGyUog201FQKspMzyhRAjJiSo3MDY2VkIWUYmsBvyUPdQ==");
