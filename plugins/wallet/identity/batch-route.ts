import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { json, RequestError } from '../../../src/kernel/request.ts';
import { isPlainObject } from '../../../src/lib/plain-object.ts';
import { WALLET_REFUSALS, WALLET_ROUTE } from '../input/common.ts';
import type { IdentityContext } from './identity-route.ts';
import { identityOf, readSubject, type Subject } from './lookup.ts';
import { batchEntry } from './schemas.ts';

const MOST = 100;

/** POST batch-identity: one entry per input, in their order. */
export function batchIdentityRoute({ labels, names }: Omit<IdentityContext, 'unknownAs'>): Route {
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'POST',
    path: '/v1/wallet/batch-identity',
    summary: `Who is behind each of up to ${MOST} addresses and names`,
    body: Type.Unknown(),
    replies: { 200: Type.Array(batchEntry), ...WALLET_REFUSALS },
    async handler({ body }) {
      const subjects = readSubjects(body);
      const asked = subjects.flatMap((subject) => (subject.kind === 'name' ? [subject.name] : []));
      const addresses = await names.resolve(asked);
      const byName = new Map(asked.map(({ text }, at) => [text, addresses[at] ?? null]));
      const identify = (address: string) => {
        const label = labels.find(address);
        return label === null ? { address, type: 'unknown' } : identityOf(label);
      };
      return json(
        subjects.map((subject) => {
          if (subject.kind === 'address') return identify(subject.address);
          const address = byName.get(subject.name.text) ?? null;
          const inputDomain = subject.given;
          if (address === null) return { address: null, type: 'unknown', inputDomain, unresolved: true };
          return { ...identify(address), inputDomain };
        }),
      );
    },
  });
}

function readSubjects(body: unknown): readonly Subject[] {
  const given = isPlainObject(body) ? body['addresses'] : undefined;
  if (!Array.isArray(given) || given.length === 0)
    throw new RequestError(400, 'Invalid request body', {
      details: `addresses must be an array of 1 to ${MOST} strings`,
    });
  if (given.length > MOST)
    throw new RequestError(400, 'Too many addresses', {
      details: `at most ${MOST} addresses per request, got ${given.length}`,
    });
  return given.map((one, at) => readSubject(one, `addresses[${at}]`));
}
