/** Descriptors of listening TCP sockets that the service manager keeps open across restarts; null: the daemon binds the socket. */
export interface InheritedSockets {
  readonly api: number | null;
  readonly websocket: number | null;
  readonly admin: number | null;
}
