import { messageOf } from '../../lib/coded-error.ts';
import type { Bus } from '../../ports/bus.ts';
import type { Log } from '../../ports/log.ts';
import type { Line, Parcel } from './line.ts';

/**
 * A bus over any number of lines; without one it stays in this thread. What comes in over one line goes out over the others, so that the
 * threads of a process share its one way to other processes.
 */
export function createBus(lines: readonly Line[], log: Log): Bus {
  const listeners = new Map<string, Set<(message: unknown) => void>>();
  let closed = false;

  const hand = ({ topic, message }: Parcel): void => {
    for (const listener of listeners.get(topic) ?? []) {
      try {
        listener(message);
      } catch (error) {
        log.warn({ topic, error: messageOf(error) }, 'a listener of the bus threw');
      }
    }
  };
  const sendOver = (parcel: Parcel, except: Line | null): void => {
    for (const line of lines) if (line !== except) line.send(parcel);
  };
  for (const line of lines) {
    line.onParcel((parcel) => {
      if (closed) return;
      sendOver(parcel, line);
      hand(parcel);
    });
  }

  return {
    publish(topic, message) {
      if (closed) return;
      try {
        const text = JSON.stringify(message);
        sendOver({ topic, message }, null);
        if (listeners.has(topic)) setImmediate(() => hand({ topic, message: JSON.parse(text) }));
      } catch (error) {
        log.warn({ topic, error: messageOf(error) }, 'a message could not be put on the bus');
      }
    },
    subscribe(topic, listener) {
      const known = listeners.get(topic) ?? new Set();
      known.add(listener);
      listeners.set(topic, known);
      return () => {
        known.delete(listener);
        if (known.size === 0) listeners.delete(topic);
      };
    },
    async close() {
      closed = true;
      listeners.clear();
      await Promise.all(lines.map((line) => line.close()));
    },
  };
}
