import { Type } from '@sinclair/typebox';
import { defineRoute, type Route } from '../../../src/kernel/plugin.ts';
import { json, type Reply, RequestError } from '../../../src/kernel/request.ts';
import { walletParams } from '../input/address.ts';
import { NOT_FOUND, WALLET_REFUSALS, WALLET_ROUTE } from '../input/common.ts';
import type { Labels } from './labels/labels.ts';
import { identityOf, readSubject, type Subject } from './lookup.ts';
import type { Names } from './names/names.ts';
import { identityReply, unknownReply } from './schemas.ts';

export interface IdentityContext {
  readonly labels: Labels;
  readonly names: Names;
  readonly unknownAs: '404' | '200';
}

/** GET identity: one address, or the one that a name stands for. */
export function identityRoute({ labels, names, unknownAs }: IdentityContext): Route {
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/identity',
    summary: 'Who is behind an address or a name',
    params: walletParams,
    replies: { 200: Type.Union([identityReply, unknownReply]), ...WALLET_REFUSALS, ...NOT_FOUND },
    async handler({ params }): Promise<Reply> {
      const subject = readSubject(params.wallet);
      const address = await addressOf(names, subject);
      const label = labels.find(address);
      if (label !== null) {
        // Programs own no names, and looking for them is dear for the upstream.
        const domainNames = label.type === 'program' ? [] : ((await names.owned(address)) ?? []);
        return json({ ...identityOf(label), ...(domainNames.length === 0 ? {} : { domainNames }) });
      }
      if (unknownAs === '200') return json({ address, type: 'unknown' });
      throw new RequestError(404, 'No identity information available for this address', {
        ...(subject.kind === 'name' ? { details: `${subject.name.text} resolves to ${address}` } : {}),
      });
    },
  });
}

async function addressOf(names: Names, subject: Subject): Promise<string> {
  if (subject.kind === 'address') return subject.address;
  const [address = null] = await names.resolve([subject.name]);
  if (address === null) throw new RequestError(404, `Domain '${subject.name.text}' could not be resolved`);
  return address;
}
