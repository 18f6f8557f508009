/** The facilitator: checks payments with the official package, and lands them over the upstreams of the daemon. */
import { encode32, encode64 } from '../../../src/lib/base58.ts';
import { messageOf } from '../../../src/lib/coded-error.ts';
import type { ChainReader } from '../../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../../src/ports/access.ts';
import { loadOptional } from '../../../src/runtime/optional-package.ts';
import type { WirePeek } from '../../../src/solana/decode/walk-wire.ts';
import { COMPUTE_BUDGET_PROGRAM } from '../../../src/solana/programs.ts';
import { perCallRefused } from './refused.ts';
import type { Seller } from './seller.ts';
import type { ShownPayment } from './shown.ts';

export interface Facilitator {
  /** The first signature and the whole transaction, with ours. */
  complete(shown: ShownPayment): Completed;
  /** Null: it pays this amount, and would succeed now. Else why not. */
  problemOf(shown: ShownPayment, amount: bigint): Promise<string | null>;
  /** Sends it; to send one again does nothing. Errors: those of the chain. */
  send(completed: Completed): Promise<void>;
  /** `failed`: it is in a block with an error, and paid nothing. */
  fateOf(completed: Completed): Promise<'failed' | 'open'>;
}

export interface Completed {
  readonly signature: string;
  readonly wire: Buffer;
}

interface Verdict {
  readonly isValid: boolean;
  readonly invalidReason?: string;
  readonly invalidMessage?: string;
}

/** What is used of `@x402/svm`. */
interface Scheme {
  verify(payload: unknown, requirements: unknown): Promise<Verdict>;
}
interface Signer {
  getAddresses(): readonly string[];
  signTransaction(): Promise<string>;
  simulateTransaction(transaction: string): Promise<void>;
  sendTransaction(): Promise<string>;
  confirmTransaction(): Promise<void>;
}
interface SvmPackage {
  readonly ExactSvmScheme: new (signer: Signer, cache?: undefined, options?: object) => Scheme;
}
interface SvmPackageOfVersion1 {
  readonly ExactSvmSchemeV1: new (signer: Signer) => Scheme;
}

const PACKAGE = { name: '@x402/svm', version: '2.27.0' } as const;
/** The official clients allow themselves 20,000 units at 1 micro-lamport; more would be paid by us. */
const LIMITS = { maxComputeUnits: 60_000, maxPriorityFeeMicroLamports: 50_000, maxRequiredSignatures: 2 } as const;
const [UNIT_LIMIT, UNIT_PRICE] = [2, 3];
const CALL = { tenant: OWN_WORK } as const;
/** Where the first signature begins in a transaction of one or two. */
const SIGNATURE_AT = 1;

export interface OfficialSchemes {
  readonly ofVersion1: SvmPackageOfVersion1['ExactSvmSchemeV1'];
  readonly ofVersion2: SvmPackage['ExactSvmScheme'];
}

/** Errors: SIGNUP_PER_CALL with how to install the package. */
export async function loadSchemes(folders: readonly string[]): Promise<OfficialSchemes> {
  const [two, one] = await Promise.all([
    loadOptional<SvmPackage>({ ...PACKAGE, path: '/exact/facilitator' }, folders, perCallRefused),
    loadOptional<SvmPackageOfVersion1>({ ...PACKAGE, path: '/exact/v1/facilitator' }, folders, perCallRefused),
  ]);
  return { ofVersion1: one.ExactSvmSchemeV1, ofVersion2: two.ExactSvmScheme };
}

export function createFacilitator(schemes: OfficialSchemes, seller: Seller, chain: ChainReader): Facilitator {
  const { feePayer } = seller;
  const never = () => Promise.reject(new Error('the daemon settles by itself'));
  const signer: Signer = {
    getAddresses: () => [feePayer.address],
    async simulateTransaction(transaction) {
      const options = { encoding: 'base64', sigVerify: false, commitment: 'confirmed' };
      const { value } = await chain.call<{ value: { err: unknown } }>(
        'simulateTransaction',
        [transaction, options],
        CALL,
      );
      if (value.err !== null) throw new Error(JSON.stringify(value.err));
    },
    signTransaction: never,
    sendTransaction: never,
    confirmTransaction: never,
  };
  const [ofVersion1, ofVersion2] = [new schemes.ofVersion1(signer), new schemes.ofVersion2(signer, undefined, LIMITS)];

  function requirementsOf({ version, memo }: ShownPayment, amount: bigint): Record<string, unknown> {
    const shared = {
      scheme: 'exact',
      asset: seller.mint,
      payTo: seller.treasury,
      extra: { feePayer: feePayer.address, memo },
    };
    return version === 1
      ? { ...shared, network: seller.networkOfVersion1, maxAmountRequired: String(amount) }
      : { ...shared, network: seller.network, amount: String(amount) };
  }

  return {
    complete({ wire, peek }) {
      const signature = feePayer.sign(peek.message);
      const whole = Buffer.from(wire);
      whole.set(signature, SIGNATURE_AT);
      return { signature: encode64(signature), wire: whole };
    },
    async problemOf(shown, amount) {
      const dear = tooDear(shown.peek);
      if (dear !== null) return dear;
      const scheme = shown.version === 1 ? ofVersion1 : ofVersion2;
      try {
        const verdict = await scheme.verify(shown.payload, requirementsOf(shown, amount));
        if (verdict.isValid) return null;
        const { invalidReason = 'invalid', invalidMessage } = verdict;
        return invalidMessage === undefined ? invalidReason : `${invalidReason}: ${invalidMessage}`;
      } catch (error) {
        // The package throws for some payloads of a wrong form.
        return `it cannot be verified: ${messageOf(error)}`;
      }
    },
    async send({ wire }) {
      const options = { encoding: 'base64', skipPreflight: true, maxRetries: 0 };
      await chain.call('sendTransaction', [wire.toString('base64'), options], CALL);
    },
    async fateOf({ signature }) {
      const { value } = await chain.call<{ value: readonly ({ err: unknown } | null)[] }>(
        'getSignatureStatuses',
        [[signature]],
        CALL,
      );
      return value[0] != null && value[0].err !== null ? 'failed' : 'open';
    },
  };
}

/** Why its fees, which we pay, are too high; null: they are not. The package limits them in version 2 only. */
function tooDear({ header, instructions, staticKey, staticKeyCount }: WirePeek): string | null {
  if (header.numRequiredSignatures > LIMITS.maxRequiredSignatures) return 'it has more than two signers';
  const budgets = instructions.filter(
    ({ programIndex }) => programIndex < staticKeyCount && encode32(staticKey(programIndex)) === COMPUTE_BUDGET_PROGRAM,
  );
  const limit = budgets.find(({ data }) => data[0] === UNIT_LIMIT && data.length >= 5);
  const price = budgets.find(({ data }) => data[0] === UNIT_PRICE && data.length >= 9);
  if (budgets.length !== 2 || limit === undefined || price === undefined)
    return 'it has to set a limit and a price of compute units, and nothing else of the budget';
  if (Buffer.from(limit.data).readUInt32LE(1) > LIMITS.maxComputeUnits)
    return `its limit of compute units is above ${LIMITS.maxComputeUnits}`;
  if (Buffer.from(price.data).readBigUInt64LE(1) > BigInt(LIMITS.maxPriorityFeeMicroLamports))
    return `its price of compute units is above ${LIMITS.maxPriorityFeeMicroLamports} micro-lamports`;
  return null;
}
