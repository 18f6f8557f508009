/** States that can be reported to a service manager. */
export type NotifyState =
  /** The service accepts requests; also ends `reloading`. */
  | 'ready'
  /** A new configuration is being read. */
  | 'reloading'
  | 'stopping'
  /** Feeds the watchdog. */
  | 'alive';

export interface Notice {
  readonly state?: NotifyState;
  /** One line for people. No secrets: every user of the machine can read it. */
  readonly status?: string;
}

/** The service manager that started this process, such as systemd. */
export interface Notify {
  /** Whether a service manager listens; if not, `tell` does nothing. */
  readonly enabled: boolean;
  /** The manager ends the service if it receives no `alive` for this long; null: no watchdog. */
  readonly watchdogMs: number | null;
  /**
   * Sends a notice. Notices arrive in the order of the calls. Resolves when the notice was accepted, or was given up after a bounded time;
   * never rejects.
   */
  tell(notice: Notice): Promise<void>;
}

/** Descriptors of listening TCP sockets that the service manager keeps open across restarts; null: the daemon binds the socket. */
export interface InheritedSockets {
  readonly api: number | null;
  readonly websocket: number | null;
  readonly admin: number | null;
}
