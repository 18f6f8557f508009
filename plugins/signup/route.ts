import { decode, decode32 } from '../../src/lib/base58.ts';
import { codeOf } from '../../src/lib/coded-error.ts';
import { verifyEd25519 } from '../../src/lib/ed25519-verify.ts';
import { signupMessage } from '../../src/lib/signup-message.ts';
import { defineRoute, json, RequestError, type Route, Type } from '../../src/plugin/plugin.ts';
import type { Claim, ClaimOutcome } from './claim.ts';
import type { Terms } from './terms.ts';

const SHARED = { path: '/v0/signup', tag: 'Sign-up', auth: 'none', errors: 'plain' } as const;
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const BODY_BYTES = 4_096;
const MAX_TEXT = 128;
const errorReply = Type.Object({ error: Type.String(), code: Type.Integer() });
const textField = (description: string) => Type.String({ maxLength: MAX_TEXT, description });

/** What a sign-up costs. */
export function termsRoute(terms: Terms, plan: string, credits: number): Route {
  const prices = terms.prices.map(({ amount, ...price }) => ({ ...price, amount: String(amount) }));
  return defineRoute({
    ...SHARED,
    method: 'GET',
    summary: 'What a sign-up costs, and whom to pay',
    replies: {
      200: Type.Object({
        treasury: Type.String(),
        plan: Type.String(),
        credits: Type.Integer(),
        prices: Type.Array(
          Type.Object({
            symbol: Type.String(),
            mint: Type.Union([Type.String(), Type.Null()]),
            decimals: Type.Integer(),
            amount: Type.String(),
          }),
        ),
      }),
    },
    handler: () => json({ treasury: terms.treasury, plan, credits, prices }),
  });
}

/** Gives a key for a payment. */
export function claimRoute(claim: (claim: Claim) => Promise<ClaimOutcome>): Route {
  return defineRoute({
    ...SHARED,
    method: 'POST',
    summary: 'Install an API key for a finalized payment; the same claim may be repeated',
    bodyLimitBytes: BODY_BYTES,
    body: Type.Object({
      wallet: textField('wallet that paid, base58'),
      payment: textField('signature of the transaction that paid, base58'),
      key: textField('the API key: a random UUID v4 that the client makes'),
      proof: textField(
        'signature of the wallet, base58, of the text "parhelion sign-up\\npayment: <payment>\\nkey sha-256: <hexadecimal>\\n"',
      ),
    }),
    replies: {
      200: Type.Object({ status: Type.Literal('given'), projectId: Type.String() }),
      202: Type.Object({ status: Type.Literal('waiting'), slot: Type.Integer() }),
      400: errorReply,
      403: errorReply,
      404: errorReply,
      409: errorReply,
    },
    async handler({ body }) {
      prove(body);
      const outcome = await claim(body).catch((error: unknown) => {
        if (codeOf(error) === 'STORE_CONFLICT') throw new RequestError(409, 'This key is taken: try another one');
        throw error;
      });
      if (outcome.kind === 'given') return json({ status: 'given', projectId: outcome.projectId });
      if (outcome.kind === 'waiting') return json({ status: 'waiting', slot: outcome.slot }, 202);
      if (outcome.kind === 'spent') throw new RequestError(409, 'Another key was given for this payment');
      throw new RequestError(404, 'No payment of this wallet over the price was seen in this transaction');
    },
  });
}

function prove({ wallet, payment, key, proof }: Claim & { readonly proof: string }): void {
  const publicKey = decode32(wallet);
  if (publicKey === null) throw new RequestError(400, 'wallet is no address');
  if (decode(payment)?.length !== 64) throw new RequestError(400, 'payment is no signature');
  if (!UUID_V4.test(key)) throw new RequestError(400, 'key must be a UUID v4 in small letters');
  const signature = decode(proof);
  if (signature === null || !verifyEd25519(publicKey, signupMessage({ payment, key }), signature))
    throw new RequestError(403, 'proof is not signed by the wallet');
}
