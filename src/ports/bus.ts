import { type ServiceToken, serviceToken } from './service.ts';

/**
 * Hints between the roles of a daemon, across threads and processes. Delivery is at most once, without an order across senders; messages
 * without a subscriber, or on a broken connection, are lost. Correctness must not depend on a message: subscribers also poll the store.
 */
export interface Bus {
  /**
   * Sends a message to all subscribers of the topic, including those of this bus; asynchronously, never within the call. `message` is
   * encoded as JSON and must stay below 7,000 bytes. Never throws.
   */
  publish(topic: string, message: object): void;
  /** The listener receives parsed JSON, possibly from another version of the daemon. The returned function unsubscribes. */
  subscribe(topic: string, listener: (message: unknown) => void): () => void;
  /** Closes the connections; later messages are dropped. */
  close(): Promise<void>;
}

/** The bus scoped to one plugin: hints to the same plugin in other threads and processes. */
export type Hints = Pick<Bus, 'publish' | 'subscribe'>;

/**
 * A line to the other threads of this process that open one of the same name, as plain data and bytes of any size, in order. Unlike the
 * bus it reaches no other process. What is sent while nobody listens is lost; the receiver has to bound what waits for it.
 */
interface ThreadLine {
  /** A view of bytes is sent with the whole buffer behind it. */
  post(message: object): void;
  close(): void;
}

export type OpenThreadLine = (name: string, take: (message: unknown) => void) => ThreadLine;

/** Offered by the kernel. */
export const kernelThreadLine: ServiceToken<OpenThreadLine> = serviceToken('kernel.thread-line');
