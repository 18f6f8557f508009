/** What agents read before they call: `/llms.txt`, `/agents.json`, `/skill.md`, and the reference as Markdown. */
import { Type } from '@sinclair/typebox';
import { lazy } from '../../lib/lazy.ts';
import { defineRoute, type Route } from '../../plugin/plugin.ts';
import { DOCUMENTS, fileOf, fileReply, guideFile } from './pages.ts';

interface AgentDocuments {
  readonly version: string;
  readonly routes: readonly Route[];
}

export function agentRoutes({ version, routes }: AgentDocuments): readonly Route[] {
  const common = { method: 'GET', tag: DOCUMENTS, auth: 'none', errors: 'plain' } as const;
  const ofGuide = [
    { path: '/llms.txt', summary: 'The pages of the documentation, for language models', type: 'text/plain' },
    { path: '/skill.md', summary: 'How to use this service, as a skill for agents', type: 'text/markdown' },
  ].map(({ path, summary, type }) =>
    defineRoute({
      ...common,
      path,
      summary,
      replies: { 200: Type.String({ contentMediaType: type, description: 'The text' }) },
      handler: async ({ headers }) => fileReply(await guideFile(path.slice(1)), headers),
    }),
  );
  const index = lazy(() => fileOf('agents.json', JSON.stringify(agentIndex(version, routes), null, 2)));
  return [
    ...ofGuide,
    defineRoute({
      ...common,
      path: '/agents.json',
      summary: 'Where agents find what: tools, descriptions, keys and payment',
      replies: { 200: Type.Object({}, { additionalProperties: true, description: 'The addresses' }) },
      handler: ({ headers }) => fileReply(index(), headers),
    }),
  ];
}

/** Addresses are relative to that of the document: the daemon does not know its public name. */
function agentIndex(version: string, routes: readonly Route[]): object {
  const has = (path: string) => routes.some((route) => route.path === path);
  return {
    name: 'parhelion',
    version,
    description: 'Data service for Solana: JSON-RPC, wallets, tokens, history, parsed transactions and webhooks',
    documentation: { llms: '/llms.txt', skill: '/skill.md', guide: '/docs/guide', reference: '/docs/reference.md' },
    interfaces: {
      openapi: '/openapi.json',
      openrpc: '/openrpc.json',
      jsonRpc: '/',
      ...(has('/mcp') ? { mcp: { url: '/mcp', transport: 'streamable-http' } } : {}),
    },
    authentication: {
      type: 'api-key',
      header: 'X-Api-Key',
      bearer: true,
      query: 'api-key',
    },
    signup: routes.some(({ method, path }) => method === 'GET' && path === '/v0/signup')
      ? {
          available: true,
          guide: '/docs/guide/access.md',
          terms: '/v0/signup',
          ...(has('/v0/wallet-signup') ? { hostedWire: '/v0/wallet-signup' } : {}),
        }
      : { available: false },
  };
}

// ----------------------------------------------------------------------------------------------------- the reference

interface Named {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
}

interface Content {
  readonly description?: string;
  readonly content?: Readonly<Record<string, { readonly example?: unknown }>>;
}

interface Operation {
  readonly summary: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly Named[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

interface Reference {
  readonly info: { readonly title: string; readonly description?: string };
  readonly tags: readonly { readonly name: string; readonly description?: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** The page `/docs` as Markdown: each call with its members and an example. */
export function referenceMarkdown(document: object): string {
  const { info, tags, paths } = document as Reference;
  const calls = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ path, method, operation })),
  );
  const groups = tags.map(({ name, description }) => {
    const own = calls.filter(({ operation }) => operation.tags.includes(name));
    const parts = own.map(({ path, method, operation }) => callMarkdown(path, method, operation));
    return `## ${name}\n\n${description ?? ''}\n\n${parts.join('\n\n')}`;
  });
  return `# ${info.title}\n\n${info.description ?? ''}\n\n${groups.join('\n\n')}\n`;
}

function callMarkdown(path: string, method: string, operation: Operation): string {
  const { summary, description = '', parameters = [], requestBody, responses } = operation;
  const title = path.startsWith('/#') ? path.slice(2) : `${method.toUpperCase()} ${path}`;
  const rows = parameters.map(
    ({ name, in: place, required, description: meaning = '' }) =>
      `| \`${name}\` | ${place}${required === true ? ', required' : ''} | ${meaning.replaceAll('|', '\\|').replaceAll('\n', ' ')} |`,
  );
  return [
    `### ${title}`,
    title === summary ? '' : `${summary}.`,
    description,
    rows.length === 0 ? '' : `| parameter | where | meaning |\n|---|---|---|\n${rows.join('\n')}`,
    exampleMarkdown('Request', requestBody),
    exampleMarkdown('Answer', Object.entries(responses).find(([status]) => status.startsWith('2'))?.[1]),
    path.startsWith('/#') ? (responses['200']?.description ?? '') : refusalsMarkdown(responses),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

/** What a route refuses, by status. */
function refusalsMarkdown(responses: Operation['responses']): string {
  const rows = Object.entries(responses).flatMap(([status, { description = '' }]) =>
    Number(status) >= 400 ? [`| ${status} | ${description} |`] : [],
  );
  return rows.length === 0 ? '' : `| status | meaning |\n|---|---|\n${rows.join('\n')}`;
}

function exampleMarkdown(title: string, part: Content | undefined): string {
  const example = part?.content?.['application/json']?.example;
  return example === undefined ? '' : `${title}:\n\n\`\`\`json\n${JSON.stringify(example, null, 2)}\n\`\`\``;
}
