/** Reactions to signals of the process. */
export interface SignalHandlers {
  /** First SIGTERM or SIGINT. */
  stop(signal: string): void;
  /** A second SIGTERM or SIGINT while the first is being handled. */
  force(signal: string): void;
  /** SIGHUP. */
  reload(): void;
}

/** The part of `process` that is needed; tests pass an EventEmitter. */
export interface SignalSource {
  on(signal: string, listener: () => void): unknown;
  off(signal: string, listener: () => void): unknown;
}

/** Installs the signal listeners; the returned function removes them. */
export function handleSignals(source: SignalSource, handlers: SignalHandlers): () => void {
  let stopping = false;
  const onStop = (signal: string) => () => {
    if (stopping) handlers.force(signal);
    else {
      stopping = true;
      handlers.stop(signal);
    }
  };
  const listeners: readonly (readonly [string, () => void])[] = [
    ['SIGTERM', onStop('SIGTERM')],
    ['SIGINT', onStop('SIGINT')],
    ['SIGHUP', () => handlers.reload()],
  ];
  for (const [signal, listener] of listeners) source.on(signal, listener);
  return () => {
    for (const [signal, listener] of listeners) source.off(signal, listener);
  };
}
