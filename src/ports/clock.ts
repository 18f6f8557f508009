/** Time, injected so that a simulation can drive it. */
export interface Clock {
  /** Wall clock, unix milliseconds. */
  now(): number;
  /** Monotonic milliseconds with a fraction; only differences are meaningful. */
  monotonic(): number;
  /** Resolves after `ms`, or rejects with the signal's reason. Does not keep the process alive. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Calls `fn` once after `ms`; the returned function cancels. Does not keep the process alive. */
  timeout(ms: number, fn: () => void): () => void;
}

/** Randomness, injected for the same reason. */
export interface Random {
  /** Uniform in [0, 1). */
  float(): number;
  /** Cryptographically strong bytes in production. */
  bytes(count: number): Uint8Array;
  /** A UUIDv4. */
  uuid(): string;
}
