import { decode, decode32 } from '../../../../lib/base58.ts';
import type { Commitment } from '../ledger/types.ts';
import { invalidParams, RPC, rpcError } from './rpc-error.ts';

export type Config = Readonly<Record<string, unknown>>;

const COMMITMENTS: Readonly<Record<string, Commitment>> = {
  processed: 'processed',
  confirmed: 'confirmed',
  finalized: 'finalized',
};

/** The configuration object at `index`; {} where there is none. */
export function configAt(params: readonly unknown[], index: number): Config {
  const value = params[index];
  if (value === undefined || value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value)) throw invalidParams(`Invalid params: expected an object`);
  return value as Config;
}

/** Default `finalized`, as on every node. */
export function commitmentOf(config: Config): Commitment {
  const value = config['commitment'];
  if (value === undefined || value === null) return 'finalized';
  const known = typeof value === 'string' ? COMMITMENTS[value] : undefined;
  if (known === undefined) throw invalidParams(`Invalid params: unknown variant \`${String(value).slice(0, 64)}\``);
  return known;
}

/** For methods that only know sealed blocks. */
export function sealedCommitmentOf(config: Config): 'confirmed' | 'finalized' {
  const commitment = commitmentOf(config);
  if (commitment === 'processed') throw invalidParams('Method does not support commitment below `confirmed`');
  return commitment;
}

export function checkMinContextSlot(config: Config, slot: number): void {
  const wanted = config['minContextSlot'];
  if (typeof wanted === 'number' && wanted > slot) {
    throw rpcError(RPC.minContextSlot, 'Minimum context slot has not been reached', { contextSlot: slot });
  }
}

export function keyAt(params: readonly unknown[], index: number): string {
  return asKey(params[index]);
}

export function asKey(value: unknown): string {
  if (typeof value !== 'string') throw invalidParams('Invalid params: expected a base58 key');
  if (value.length > 44 || decode32(value) === null) throw invalidParams('Invalid param: WrongSize');
  return value;
}

export function signatureAt(params: readonly unknown[], index: number): string {
  return asSignature(params[index]);
}

export function asSignature(value: unknown): string {
  const valid = typeof value === 'string' && value.length <= 88 && decode(value)?.length === 64;
  if (!valid) throw invalidParams('Invalid param: Invalid signature');
  return value;
}

/** A non-negative safe integer. */
export function integerAt(params: readonly unknown[], index: number): number {
  const value = params[index];
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    throw invalidParams('Invalid params: expected a non-negative integer');
  }
  return value as number;
}

export function listAt(params: readonly unknown[], index: number, most: number): readonly unknown[] {
  const value = params[index];
  if (!Array.isArray(value)) throw invalidParams('Invalid params: expected a list');
  if (value.length > most) throw invalidParams(`Too many inputs provided; max ${most}`);
  return value;
}

/** Binary text in base58 or base64. */
export function bytesOf(text: unknown, encoding: 'base58' | 'base64'): Uint8Array {
  if (typeof text !== 'string') throw invalidParams('Invalid params: expected encoded bytes');
  if (encoding === 'base64') {
    const bytes = Buffer.from(text, 'base64');
    if (bytes.toString('base64') !== text) throw invalidParams('invalid base64 encoding');
    return bytes;
  }
  // Decoding base58 takes time by the square of the length: nothing longer can be a packet.
  const bytes = text.length > 1683 ? null : decode(text);
  if (bytes === null) throw invalidParams('invalid base58 encoding');
  return bytes;
}
