import type { WebSocket } from 'ws';
import type { NotificationFilter } from '../pubsub/sockets.ts';
import type { FaultEngine } from './engine.ts';

const ABNORMAL = 1006;
/** First byte of a text frame, and a length of 1000 bytes in the two that follow; the bytes themselves never come. */
const HALF_FRAME = Buffer.from([0x81, 126, 0x03, 0xe8, 0x7b]);

/** Applies the rules to notifications. */
export function createNotificationFilter(engine: FaultEngine): NotificationFilter {
  const held = new WeakMap<WebSocket, string[]>();
  return (kind, text, socket, send) => {
    const rule = engine.isIdle()
      ? null
      : engine.pick({ method: null, slot: null, subscription: kind, item: 0, client: '' });
    switch (rule?.action) {
      case 'wsDrop':
        dropSocket(socket, rule.code ?? ABNORMAL);
        return;
      case 'wsSilent':
      case 'wsSkipSlots':
        return;
      case 'wsHalf':
        rawSocket(socket)?.write(HALF_FRAME);
        return;
      case 'duplicate':
        send(text);
        send(text);
        return;
      case 'outOfOrder': {
        const list = [...(held.get(socket) ?? []), text];
        const full = list.length >= (rule.window ?? 2);
        held.set(socket, full ? [] : list);
        if (full) for (const item of list.toReversed()) send(item);
        return;
      }
      default:
        send(text);
    }
  };
}

/** Whether a ping is answered. */
export function answersPing(engine: FaultEngine): boolean {
  return (
    engine.isIdle() || engine.pick({ method: null, slot: null, subscription: 'ping', item: 0, client: '' }) === null
  );
}

function dropSocket(socket: WebSocket, code: number): void {
  if (code === ABNORMAL) socket.terminate();
  else socket.close(code);
}

/** Half a frame cannot be sent through the library on purpose: it goes past it. */
function rawSocket(socket: WebSocket): { write(data: Buffer): void } | undefined {
  return (socket as unknown as { _socket?: { write(data: Buffer): void } })._socket;
}
