/** What a service manager can be told about the state of the service. */
export type NotifyState =
  /** The service answers; also ends `reloading`. */
  | 'ready'
  /** A new configuration is being read. */
  | 'reloading'
  | 'stopping'
  /** Feeds the watchdog. */
  | 'alive';

export interface Notice {
  readonly state?: NotifyState;
  /** One line for people; no secrets: everyone on the machine can read it. */
  readonly status?: string;
}

/** The service manager that started this process, such as systemd. */
export interface Notify {
  /** Whether one listens; without one `tell` does nothing. */
  readonly enabled: boolean;
  /** The manager ends the service when it hears no `alive` for this long; null when it does not watch. */
  readonly watchdogMs: number | null;
  /**
   * Hands a notice over. Notices arrive in the order of the calls. Resolves when the notice was taken, or given up after a
   * bounded time; never rejects.
   */
  tell(notice: Notice): Promise<void>;
}
