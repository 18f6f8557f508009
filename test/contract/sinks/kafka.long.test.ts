import { after, before } from 'node:test';
import { kafkaKind } from '../../../plugins/sinks/targets/kafka.ts';
import { SINK_CLIENTS_DIR, type SinkServer, sinkServersMissing, startKafka } from '../../helpers/sink-servers.ts';
import { sinkSuite } from './suite.ts';

const skip = sinkServersMissing() ?? false;
let server: SinkServer;
let places = 0;
if (skip === false) {
  before(async () => {
    server = await startKafka();
  });
  after(() => server.stop());
}

sinkSuite({
  name: 'kafka',
  kind: kafkaKind([SINK_CLIENTS_DIR]),
  skip,
  async place() {
    places += 1;
    return { target: server.target, options: { prefix: `rows${places}` } };
  },
});
