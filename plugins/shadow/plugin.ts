import { EXIT } from '../../src/lib/coded-error.ts';
import type { HostContext } from '../../src/plugin/host.ts';
import { CodedError } from '../../src/plugin/plugin.ts';
import { kernelView } from '../../src/ports/daemon-view.ts';
import type { OutboundClient } from '../../src/ports/outbound.ts';
import { createBudget } from './budget.ts';
import { reportCommand } from './commands.ts';
import { SHADOW_ERRORS, type ShadowConfig } from './config.ts';
import { listenCommand } from './listen.ts';
import { createReference } from './reference.ts';
import { createResults } from './results.ts';
import { shadowRoutes } from './routes.ts';
import { createShadow } from './shadow.ts';

const FLUSH_MS = 1_000;
/** What a method without a published price is counted as. */
const UNPRICED = { product: 'other', credits: 1 };

/** Puts the parts of the plugin together. Error: SHADOW_CONFIG. */
export function provision(ctx: HostContext<ShadowConfig>): void {
  const { config, clock, random, log, metrics, store } = ctx;
  ctx.command(reportCommand(clock));
  ctx.command(listenCommand(clock));
  const daemon = ctx.use(kernelView);
  if (daemon === undefined || !ctx.roles.has('api')) return;
  if (config.reference.url === null && config.reference.restUrl === null)
    throw new CodedError('SHADOW_CONFIG', SHADOW_ERRORS.SHADOW_CONFIG, { exitCode: EXIT.config });
  let client: OutboundClient | null = null;
  const openClient = (): OutboundClient => {
    // The operator chose the address: any network is allowed, and http too.
    client ??= ctx.outbound.open({
      allowCidrs: ['0.0.0.0/0', '::/0'],
      allowHttp: true,
      allowPorts: null,
      caFile: null,
      maxConnections: config.maxConcurrent,
    });
    return client;
  };
  const results = createResults({ store, clock, random, config });
  const shadow = createShadow({
    config,
    clock,
    random,
    log,
    metrics,
    budget: createBudget(store, clock, config),
    reference: createReference(config, openClient),
    results,
    priceOf: (name) => daemon.priceOf(name) ?? UNPRICED,
  });
  for (const route of shadowRoutes({ store, clock, flush: results.flush })) ctx.http.route(route);
  let untap = (): void => {};
  ctx.onStart(() => {
    untap = daemon.tapAnswers(shadow);
  });
  ctx.every(FLUSH_MS, results.flush);
  ctx.onDrain(() => untap());
  ctx.onStop(async () => {
    untap();
    shadow.stop();
    await results.flush();
    await client?.close();
  });
}
