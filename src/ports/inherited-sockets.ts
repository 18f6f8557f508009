/** Descriptors of listening TCP sockets that the service manager opened and keeps open over restarts; null: the daemon binds itself. */
export interface InheritedSockets {
  readonly api: number | null;
  readonly websocket: number | null;
  readonly admin: number | null;
}
