import { after, before } from 'node:test';
import { natsKind } from '../../../plugins/sinks/targets/nats.ts';
import { SINK_CLIENTS_DIR, type SinkServer, sinkServersMissing, startNats } from '../../helpers/sink-servers.ts';
import { sinkSuite } from './suite.ts';

const skip = sinkServersMissing() ?? false;
let server: SinkServer;
let places = 0;
if (skip === false) {
  before(async () => {
    server = await startNats();
  });
  after(() => server.stop());
}

sinkSuite({
  name: 'nats',
  kind: natsKind([SINK_CLIENTS_DIR]),
  skip,
  async place() {
    places += 1;
    return { target: server.target, options: { stream: `rows${places}`, subject: `rows.${places}` } };
  },
});
