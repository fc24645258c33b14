package balance_test

const workerEnv = "KRING_TEST_WORKER"

func runWorker(string) int { return 0 }
