/** A lock that shows other processes of the machine that this one is alive. The operating system releases it however the process ends. */
export interface Owner {
  /** Unique; never reused. */
  readonly id: string;
  /**
   * Whether the process with this id has certainly ended. False if it runs or is paused, or if the id is unknown on this machine: the
   * process may run elsewhere.
   */
  isGone(id: string): boolean;
  /**
   * Removes the files of ended processes, but only at the second call that finds them: a database server may still commit a transaction
   * that a process sent just before its end. Their ids are unknown afterwards.
   */
  forgetGone(): void;
  /** Releases the lock. */
  close(): void;
}
