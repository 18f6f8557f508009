import { after, before } from 'node:test';
import { clickhouseKind } from '../../../plugins/sinks/targets/clickhouse.ts';
import { type ClickHouseServers, serversMissing, startClickHouse } from '../../helpers/clickhouse.ts';
import { sinkSuite } from './suite.ts';

const skip = serversMissing(1) ?? false;
let servers: ClickHouseServers;
let places = 0;
if (skip === false) {
  before(async () => {
    servers = await startClickHouse(1);
  });
  after(() => servers.stop());
}

sinkSuite({
  name: 'clickhouse',
  kind: clickhouseKind,
  skip,
  async place() {
    places += 1;
    return { target: `clickhouse://${servers.servers[0]!.host}`, options: { database: `rows${places}` } };
  },
});
