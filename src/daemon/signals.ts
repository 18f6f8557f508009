/** What the process tells the daemon. */
export interface SignalHandlers {
  /** First SIGTERM or SIGINT. */
  stop(signal: string): void;
  /** A second one while the first is still at work. */
  force(signal: string): void;
  /** SIGHUP. */
  reload(): void;
}

/** The part of `process` that is needed; tests give an EventEmitter. */
export interface SignalSource {
  on(signal: string, listener: () => void): unknown;
  off(signal: string, listener: () => void): unknown;
}

/** Routes signals; the returned function takes the listeners away again. */
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
