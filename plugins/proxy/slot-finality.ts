import { type PluginContext, type Price, RpcError, type RpcMethod, Type } from '../../src/plugin/plugin.ts';
import type { ChainStatus, FinalityStatus, VerifiedSlot } from '../../src/ports/chain.ts';
import { finalityAlarmText } from '../../src/runtime/finality-text.ts';
import { flag, oneOf, orNull, slot, text } from '../../src/solana/schemas.ts';

/** `getSlotFinality [slot?]`: whether a slot is final, by the word of the upstreams or by a certificate that was checked here. */
export function describeSlotFinality(ctx: Pick<PluginContext<unknown>, 'chain' | 'clock'>, price: Price): RpcMethod {
  return {
    name: 'getSlotFinality',
    summary: 'Whether a slot is final, and how much of the stake signed the certificate that proves it',
    description:
      'A certificate proves its own slot and all below. It is checked here where a Yellowstone server sends footers and a node has the rank map; else `certificate` is null, and `reason` says why.',
    tag: { name: 'Chain', description: 'The chain that the daemon follows' },
    auth: 'key',
    price,
    params: Type.Unsafe<readonly [number?]>({
      type: 'array',
      items: [slot('Slot; default: the newest final one', { title: 'slot', maximum: Number.MAX_SAFE_INTEGER })],
      minItems: 0,
      maxItems: 1,
    }),
    result: slotFinality,
    handler({ params }) {
      const status = ctx.chain('main')?.status();
      const newest = status === undefined ? null : newestFinalSlot(status);
      if (status === undefined || newest === null) throw new RpcError('unavailable', UNKNOWN);
      const [asked = newest] = params as readonly [number?];
      const certificate = certificateOf(status.finality, asked);
      return {
        context: { slot: newest },
        value: {
          slot: asked,
          isFinal: asked <= newest,
          certificate,
          reason: certificate === null ? reasonOf(status, asked) : null,
          alarm: finalityAlarmText(status.finality, ctx.clock.now()),
        },
      };
    },
  };
}

const UNKNOWN = { details: 'no final slot is known: the chain is not followed yet', retryAfterS: 1 } as const;

/** Upstreams are asked now and then; a certificate can prove a slot final before that. */
function newestFinalSlot({ finalizedSlot, finality }: ChainStatus): number | null {
  const proven = finality?.verified?.slot ?? null;
  if (finalizedSlot === null || proven === null) return finalizedSlot ?? proven;
  return Math.max(finalizedSlot, proven);
}

/** The lowest known certificate at or above the slot: its block has the slot's as an ancestor. */
const certificateOf = (finality: FinalityStatus | undefined, asked: number): VerifiedSlot | null =>
  finality?.recent.findLast((one) => one.slot >= asked) ?? null;

function reasonOf({ finality }: ChainStatus, asked: number): string {
  if (finality === undefined) return 'the daemon does not follow the chain';
  if (finality.verified === null) return finality.reason ?? 'no certificate was checked yet';
  return `the newest certificate that was checked is of slot ${finality.verified.slot}, below ${asked}`;
}

const slotFinality = Type.Object(
  {
    context: Type.Object(
      { slot: slot('The newest final slot, by the word of the upstreams or by a certificate') },
      { description: 'What the answer is as of' },
    ),
    value: Type.Object(
      {
        slot: slot('The slot asked for'),
        isFinal: flag('Whether it is final, by the word of the upstreams or by a certificate', true),
        certificate: orNull(
          Type.Object({
            slot: slot('Slot of the certificate, at or above the slot asked for'),
            stakePercent: Type.Number({
              minimum: 0,
              maximum: 100,
              description: 'Share of the ranked stake that signed, in percent; of two rounds the smaller one',
              examples: [83.21],
            }),
            rounds: oneOf(['fast', 'slow'], 'fast: one round of votes; slow: two'),
          }),
          { description: 'What proves it; null: nothing was checked that does' },
        ),
        reason: orNull(text('Why there is no certificate; null where there is one', 'no footer has arrived')),
        alarm: orNull(
          text(
            'A certificate of the last hour that does not hold; null: none',
            'the certificate of slot 460000000 does not prove it final: too little stake signed it',
          ),
        ),
      },
      { description: 'What is known of the slot' },
    ),
  },
  { title: 'SlotFinality', description: 'Whether a slot is final, and what proves it' },
);
