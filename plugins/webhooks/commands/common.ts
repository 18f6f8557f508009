import { CodedError, type CommandIo } from '../../../src/plugin/plugin.ts';
import type { AccessCharges } from '../../../src/ports/access.ts';
import type { Outbox } from '../../../src/ports/outbox.ts';
import type { BodyBuilder } from '../bodies/builder.ts';
import type { DeliveryQueue } from '../delivery/queue.ts';
import type { Send } from '../delivery/send.ts';
import type { ManageContext } from '../manage/context.ts';
import type { Webhook } from '../model/webhook.ts';
import type { Replays } from '../replay.ts';
import { hooksById } from '../store/hooks.ts';
import type { Db } from '../store/tables.ts';

export interface WebhookCommandParts {
  readonly context: ManageContext;
  readonly queue: DeliveryQueue;
  readonly outbox: Outbox;
  readonly send: Send;
  readonly bodies: BodyBuilder;
  readonly replays: Replays | null;
  readonly charges: AccessCharges | null;
}

export type Options = Readonly<Record<string, string | boolean | undefined>>;

export const ID_OPTION = { flags: '--id <id>', description: 'the webhook, from `webhooks list`', required: true };
export const JSON_OPTION = { flags: '--json', description: 'one JSON document; of events one per line' };

const EXIT_USAGE = 64;

export const usage = (message: string): CodedError =>
  new CodedError('WEBHOOKS_USAGE', message, { exitCode: EXIT_USAGE });

/** The text of an option; undefined where it was not given. */
export function textOf(options: Options, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

/** An integer of an option within bounds. Errors: WEBHOOKS_USAGE. */
export function integerOf(options: Options, name: string, bounds: { readonly min: number; readonly max: number }) {
  const text = textOf(options, name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= bounds.min && value <= bounds.max) return value;
  throw usage(`--${name} wants a whole number from ${bounds.min} to ${bounds.max}`);
}

/** The webhook that `--id` names, whosoever it is. Errors: WEBHOOKS_USAGE. */
export async function hookOf({ store }: Pick<CommandIo, 'store'>, options: Options): Promise<Webhook> {
  const id = String(options['id']).toLowerCase();
  const [hook] = await hooksById(store.read as Db, store.dialect, [id]);
  if (hook === undefined) throw usage(`there is no webhook ${id}`);
  return hook;
}

/** Scheme and host: what comes behind them may be a secret. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : '-';
}

export function whenInterrupted(): { readonly signal: AbortSignal; end(): void } {
  const control = new AbortController();
  const stop = () => control.abort();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, stop);
  return {
    signal: control.signal,
    end() {
      for (const name of ['SIGINT', 'SIGTERM'] as const) process.removeListener(name, stop);
    },
  };
}
