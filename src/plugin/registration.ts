import { CodedError, messageOf } from '../lib/coded-error.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { ProvidedService } from '../ports/service.ts';
import { EXIT } from '../runtime/errors.ts';
import { startEvery } from '../runtime/every.ts';
import type { Contribution } from './host.ts';
import type { BlockProcessor, Command, HealthCheck, JobKind, PluginContext, Route, RpcMethod } from './plugin.ts';

/** The registering methods of a plugin's context, and the collected result. */
export interface Registration {
  readonly methods: Pick<
    PluginContext,
    'http' | 'rpc' | 'blocks' | 'check' | 'command' | 'every' | 'onStart' | 'onDrain' | 'onStop' | 'provide'
  > & { readonly jobs: Pick<PluginContext['jobs'], 'define'> };
  /** Call once, after `provision` returned. Merges the contribution that a host plugin returned with the registered parts. */
  close(returned: Contribution | undefined): Contribution;
}

export function createRegistration(id: string, clock: Clock, log: Log): Registration {
  const routes: Route[] = [];
  const rpc: RpcMethod[] = [];
  const processors: BlockProcessor[] = [];
  const jobs: JobKind[] = [];
  const checks: HealthCheck[] = [];
  const commands: Command[] = [];
  const services: ProvidedService[] = [];
  const starts: ((signal: AbortSignal) => unknown)[] = [];
  const drains: (() => unknown)[] = [];
  const stops: ((signal: AbortSignal) => unknown)[] = [];
  let isClosed = false;

  function push<T>(list: T[], item: T, what: string): void {
    if (isClosed) {
      throw new CodedError('PLUGIN_INVALID', `plugin ${id} called ${what} after provision had returned`, {
        exitCode: EXIT.config,
      });
    }
    list.push(item);
  }

  return {
    methods: {
      http: { route: (route) => push(routes, route as unknown as Route, 'http.route') },
      rpc: { method: (method) => push(rpc, method as unknown as RpcMethod, 'rpc.method') },
      blocks: { on: (processor) => push(processors, processor, 'blocks.on') },
      jobs: { define: (kind) => push(jobs, kind, 'jobs.define') },
      check: (name, run) => push(checks, { name, run }, 'check'),
      command: (command) => push(commands, command, 'command'),
      every(intervalMs, work) {
        let end: (() => Promise<void>) | null = null;
        const onError = (error: unknown) =>
          log.error({ error: messageOf(error) }, 'the periodic work of a plugin failed');
        const begin = () => {
          end = startEvery(clock, intervalMs, work, onError);
        };
        push(starts, begin, 'every');
        push(stops, () => end?.(), 'every');
      },
      onStart: (run) => push(starts, run, 'onStart'),
      onDrain: (run) => push(drains, run, 'onDrain'),
      onStop: (run) => push(stops, run, 'onStop'),
      provide: (token, service) => push(services, { token, service }, 'provide'),
    },
    close(returned = {}) {
      isClosed = true;
      return {
        ...returned,
        routes: [...(returned.routes ?? []), ...routes],
        rpc: [...(returned.rpc ?? []), ...rpc],
        processors: [...(returned.processors ?? []), ...processors],
        jobs: [...(returned.jobs ?? []), ...jobs],
        checks: [...(returned.checks ?? []), ...checks],
        commands: [...(returned.commands ?? []), ...commands],
        services: [...(returned.services ?? []), ...services],
        async start(signal) {
          await returned.start?.(signal);
          for (const run of starts) await run(signal);
        },
        async drain() {
          await Promise.all([returned.drain?.(), ...drains.map((run) => run())]);
        },
        async stop(signal) {
          const errors: unknown[] = [];
          for (const run of [...stops.toReversed(), (given: AbortSignal) => returned.stop?.(given)]) {
            try {
              await run(signal);
            } catch (error) {
              errors.push(error);
            }
          }
          if (errors.length > 0) throw errors[0];
        },
      };
    },
  };
}
