import { BroadcastChannel } from 'node:worker_threads';
import type { Line, Parcel } from './line.ts';

/** A line to the other threads of this process that open one of the same name. It keeps no thread alive. */
export function broadcastLine(name: string): Line {
  const channel = new BroadcastChannel(name);
  channel.unref();
  return {
    send: (parcel) => channel.postMessage(parcel),
    onParcel(take) {
      channel.onmessage = (event) => take((event as { readonly data: Parcel }).data);
    },
    async close() {
      channel.close();
    },
  };
}
