/** A thread that ends as one does whose heap is full. */
export {};

throw Object.assign(new Error('Worker terminated due to reaching memory limit: JS heap out of memory'), {
  code: 'ERR_WORKER_OUT_OF_MEMORY',
});
