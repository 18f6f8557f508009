/**
 * Hints between the roles of a daemon, wherever they run: at most once, no order over several senders, and lost when nobody listens or
 * the way is broken. Nothing may be right only because a message arrived: whoever listens also looks at the store now and then.
 */
export interface Bus {
  /**
   * Tells all subscribers of the topic, also those of this very bus, later and never within the call. `message` is small and goes through
   * JSON (below 7,000 bytes). Never throws.
   */
  publish(topic: string, message: object): void;
  /** The message comes as parsed JSON, from whatever version is at the other end. The returned function ends it. */
  subscribe(topic: string, listener: (message: unknown) => void): () => void;
  /** Gives the ways up; later messages go nowhere. */
  close(): Promise<void>;
}

/** The bus as a plugin has it, with topics of its own: hints to the same plugin in other threads and processes. */
export type Hints = Pick<Bus, 'publish' | 'subscribe'>;
