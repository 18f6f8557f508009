import { CodedError } from '../../lib/coded-error.ts';
import type { Contribution, Gate, RpcFallback, SocketHandler } from '../../plugin/host.ts';
import type { BlockProcessor, Command, HealthCheck, JobKind, Route, RpcMethod } from '../../plugin/plugin.ts';
import type { ContributedParser } from '../../ports/parsers.ts';
import type { Tracer } from '../../ports/tracing.ts';
import { EXIT } from '../../runtime/errors.ts';

/** The contributions of all plugins as one. */
export interface Merged {
  readonly routes: readonly Route[];
  readonly rpc: readonly RpcMethod[];
  readonly processors: readonly BlockProcessor[];
  /** The plugin of each, by the processor's name. */
  readonly processorOwners: ReadonlyMap<string, string>;
  readonly jobs: readonly JobKind[];
  readonly checks: readonly HealthCheck[];
  readonly commands: readonly Command[];
  readonly parsers: readonly ContributedParser[];
  readonly gate: Gate | null;
  readonly rpcFallback: RpcFallback | null;
  readonly sockets: SocketHandler | null;
  readonly tracer: Tracer | null;
}

interface Contributor {
  readonly id: string;
  readonly contribution: Contribution;
}

/** Errors: PLUGIN_CONFLICT names both plugins, PLUGIN_INVALID the job kind that does not start with its plugin's id. */
export function mergeContributions(plugins: readonly Contributor[]): Merged {
  const owners = new Map<string, string>();
  const claim = (plugin: string, what: string) => {
    const other = owners.get(what);
    if (other !== undefined) throw conflict(other, plugin, what);
    owners.set(what, plugin);
  };
  for (const { id, contribution } of plugins) {
    for (const what of claims(contribution)) claim(id, what);
    const foreign = contribution.jobs?.find(({ kind }) => !kind.startsWith(`${id}.`));
    if (foreign !== undefined) {
      throw new CodedError('PLUGIN_INVALID', `plugin ${id}: job kind ${foreign.kind} has to start with "${id}."`, {
        exitCode: EXIT.config,
      });
    }
  }
  const all = <K extends keyof Contribution>(key: K) => plugins.map(({ contribution }) => contribution[key]);
  return {
    routes: all('routes').flatMap((list) => list ?? []),
    rpc: all('rpc').flatMap((list) => list ?? []),
    processors: all('processors').flatMap((list) => list ?? []),
    processorOwners: new Map(
      plugins.flatMap(({ id, contribution }) => (contribution.processors ?? []).map(({ name }) => [name, id] as const)),
    ),
    jobs: all('jobs').flatMap((list) => list ?? []),
    checks: all('checks').flatMap((list) => list ?? []),
    commands: all('commands').flatMap((list) => list ?? []),
    parsers: all('parsers').flatMap((list) => list ?? []),
    gate: all('gate').find((gate) => gate !== undefined) ?? null,
    rpcFallback: all('rpcFallback').find((fallback) => fallback !== undefined) ?? null,
    sockets: all('sockets').find((sockets) => sockets !== undefined) ?? null,
    tracer: all('tracer').find((tracer) => tracer !== undefined) ?? null,
  };
}

/** Everything of a contribution that only one plugin can have, in the words of the error. */
function claims(contribution: Contribution): string[] {
  return [
    ...(contribution.routes ?? []).map(
      ({ method, path, auth }) =>
        `the ${auth === 'admin' ? 'admin ' : ''}route ${method} ${path.replaceAll(/:[^/]+/g, ':')}`,
    ),
    ...(contribution.rpc ?? []).map(({ name }) => `the JSON-RPC method ${name}`),
    ...(contribution.processors ?? []).map(({ name }) => `the block processor ${name}`),
    ...(contribution.jobs ?? []).map(({ kind }) => `the job kind ${kind}`),
    ...(contribution.checks ?? []).map(({ name }) => `the health check ${name}`),
    ...(contribution.commands ?? []).map(({ path }) => `the command ${path.join(' ')}`),
    ...(contribution.parsers ?? []).map(({ name }) => `the transaction parser ${name}`),
    ...(contribution.gate === undefined ? [] : ['the gate']),
    ...(contribution.rpcFallback === undefined ? [] : ['the JSON-RPC fallback']),
    ...(contribution.sockets === undefined ? [] : ['the websockets']),
    ...(contribution.tracer === undefined ? [] : ['the tracer']),
  ];
}

function conflict(first: string, second: string, what: string): CodedError {
  const who = first === second ? `plugin ${first} contributes` : `plugins ${first} and ${second} both contribute`;
  return new CodedError('PLUGIN_CONFLICT', `${who} ${what}${first === second ? ' twice' : ''}`, {
    exitCode: EXIT.config,
    facts: { plugins: [first, second] },
  });
}
