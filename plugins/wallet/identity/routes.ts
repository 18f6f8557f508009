import { Type } from '@sinclair/typebox';
import { isPlainObject } from '../../../src/lib/json.ts';
import { defineRoute, type PluginContext, type Route } from '../../../src/plugin/plugin.ts';
import { json, type Reply, RequestError } from '../../../src/plugin/request.ts';
import type { Tenant } from '../../../src/ports/access.ts';
import { address, EXAMPLES, text } from '../../../src/solana/schemas.ts';
import type { WalletConfig } from '../config.ts';
import { NOT_FOUND, WALLET_REFUSALS, WALLET_ROUTE, walletParams } from '../wallet-route.ts';
import { type AddressLabels, createLabels } from './labels.ts';
import { createDomainNames, type DomainNames, identityOf, readSubject, type Subject } from './names.ts';

/** Identities of addresses. */
export function identityRoutes(ctx: PluginContext<WalletConfig>, { identity }: WalletConfig) {
  const { clock, log, metrics } = ctx;
  const labels = createLabels({ config: identity, clock, log, metrics });
  const context = { labels, names: createDomainNames(ctx), config: identity };
  return {
    routes: [identityRoute(context), batchIdentityRoute(context)],
    /** The label of an address (base58), or null. */
    labelOf: (address: string) => labels.find(address),
    // Labels are loaded only in the API role.
    start: () => (ctx.roles.has('api') ? labels.start() : undefined),
    stop: () => labels.stop(),
  };
}

interface IdentityContext {
  readonly labels: AddressLabels;
  readonly names: DomainNames;
  readonly config: Pick<WalletConfig['identity'], 'unknownAs' | 'batchUnknown'>;
}

/** GET identity: of an address, or of the address that a name resolves to. */
function identityRoute({ labels, names, config }: IdentityContext): Route {
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'GET',
    path: '/v1/wallet/:wallet/identity',
    summary: 'Identity of an address or a name',
    params: walletParams,
    documented: {
      params: { wallet: text('An address in base58, or a name such as toly.sol', 'toly.sol') },
    },
    replies: {
      200: Type.Union([identityReply, unknownReply], { description: 'What is known of the address' }),
      ...WALLET_REFUSALS,
      ...NOT_FOUND,
    },
    async handler({ params, tenant }): Promise<Reply> {
      const subject = readSubject(params.wallet);
      const address = await addressOf(names, subject, tenant);
      const label = labels.find(address);
      if (label !== null) {
        // Programs own no names, and the search is expensive for the upstream.
        const domainNames = label.type === 'program' ? [] : ((await names.owned(address, tenant)) ?? []);
        return json({ ...identityOf(label), ...(domainNames.length === 0 ? {} : { domainNames }) });
      }
      if (config.unknownAs === '200') return json({ address, type: 'unknown' });
      throw new RequestError(404, 'No identity information available for this address', {
        ...(subject.kind === 'name' ? { details: `${subject.name.text} resolves to ${address}` } : {}),
      });
    },
  });
}

async function addressOf(names: DomainNames, subject: Subject, tenant: Tenant): Promise<string> {
  if (subject.kind === 'address') return subject.address;
  const [address = null] = await names.resolve([subject.name], tenant);
  if (address === null) throw new RequestError(404, `Domain '${subject.name.text}' could not be resolved`);
  return address;
}

const MAX_NAMES = 100;

/** POST batch-identity: one entry per input, in the same order. */
function batchIdentityRoute({ labels, names, config }: IdentityContext): Route {
  return defineRoute({
    ...WALLET_ROUTE,
    method: 'POST',
    path: '/v1/wallet/batch-identity',
    summary: `Identities of up to ${MAX_NAMES} addresses and names`,
    body: batchBody,
    explain: (body) => readSubjects(body),
    replies: {
      200: Type.Array(batchEntry, { description: 'One entry per input, in the same order' }),
      ...WALLET_REFUSALS,
    },
    async handler({ body, tenant }) {
      // Typed clients reject the whole batch when one of these is missing.
      const isFull = config.batchUnknown === 'full';
      const unknown = { type: 'unknown', ...(isFull ? { name: '', category: '', tags: [] } : {}) };
      const subjects = readSubjects(body);
      const asked = subjects.flatMap((subject) => (subject.kind === 'name' ? [subject.name] : []));
      const addresses = await names.resolve(asked, tenant);
      const byName = new Map(asked.map(({ text }, at) => [text, addresses[at] ?? null]));
      const identify = (address: string) => {
        const label = labels.find(address);
        return label === null ? { address, ...unknown } : identityOf(label);
      };
      return json(
        subjects.map((subject) => {
          if (subject.kind === 'address') return identify(subject.address);
          const address = byName.get(subject.name.text) ?? null;
          const inputDomain = subject.given;
          if (address === null) return { address: isFull ? '' : null, ...unknown, inputDomain, unresolved: true };
          return { ...identify(address), inputDomain };
        }),
      );
    },
  });
}

const ADDRESS = EXAMPLES.address;
/** What is neither an address nor a name is refused when the names are read. */
const batchBody = Type.Object(
  {
    addresses: Type.Array(text('An address in base58, or a name', ADDRESS), {
      minItems: 1,
      maxItems: MAX_NAMES,
      description: 'Addresses in base58, or names',
    }),
  },
  { description: 'The addresses', examples: [{ addresses: [ADDRESS, 'toly.sol'] }] },
);

function readSubjects(body: unknown): readonly Subject[] {
  const given = isPlainObject(body) ? body['addresses'] : undefined;
  if (!Array.isArray(given) || given.length === 0)
    throw new RequestError(400, 'Invalid request body', {
      details: `addresses must be an array of 1 to ${MAX_NAMES} strings`,
    });
  if (given.length > MAX_NAMES)
    throw new RequestError(400, 'Too many addresses', {
      details: `at most ${MAX_NAMES} addresses per request, got ${given.length}`,
    });
  return given.map((one, at) => readSubject(one, `addresses[${at}]`));
}

const named = {
  type: text('Kind of the owner', 'exchange'),
  name: text('Name of the owner', 'Binance 8'),
  category: text('Category of the owner', 'Centralized Exchange'),
  tags: Type.Array(text('A label', 'hot-wallet'), { description: 'Labels' }),
  website: Type.Optional(text('Page of the owner', 'https://www.binance.com')),
};
const unknownType = Type.Literal('unknown', { description: 'Nothing is known' });
const inputDomain = text('The name that was given', 'toly.sol');

const identityReply = Type.Object(
  {
    address: address('The address'),
    ...named,
    domainNames: Type.Optional(
      Type.Array(text('A name', 'toly.sol'), { description: 'Names it owns, its favourite first' }),
    ),
  },
  { title: 'Identity', description: 'What is known of the address' },
);

/** Only with `wallet.identity.unknownAs: '200'`. */
const unknownReply = Type.Object({ address: address('The address'), type: unknownType });

const batchEntry = Type.Union([
  // Unknown and unresolved entries have this form too under `wallet.identity.batchUnknown: full`.
  Type.Object({
    address: Type.String({ description: 'The address', examples: [ADDRESS] }),
    ...named,
    inputDomain: Type.Optional(inputDomain),
    unresolved: Type.Optional(Type.Literal(true)),
  }),
  Type.Object({ address: address('The address'), type: unknownType, inputDomain: Type.Optional(inputDomain) }),
  Type.Object({
    address: Type.Null({ description: 'It does not resolve' }),
    type: unknownType,
    inputDomain,
    unresolved: Type.Literal(true),
  }),
]);
