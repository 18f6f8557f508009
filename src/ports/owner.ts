/** What a process holds to show the others on its machine that it lives. The operating system lets go of it when the process ends in any way. */
export interface Owner {
  /** Never used again. */
  readonly id: string;
  /**
   * Whether the process of this id has ended for certain. False for one that lives or is paused, and for one that this machine knows nothing
   * of: it may run elsewhere.
   */
  isGone(id: string): boolean;
  /**
   * Drops what ended processes have left behind, from the second call on that finds them: a database server may still commit what a process
   * sent just before its end. Nothing is known of them afterwards.
   */
  forgetGone(): void;
  /** Nothing of this process needs it any more. */
  close(): void;
}
