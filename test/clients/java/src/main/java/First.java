import org.p2p.solanaj.core.PublicKey;
import org.p2p.solanaj.rpc.RpcApi;
import org.p2p.solanaj.rpc.RpcClient;
import org.p2p.solanaj.rpc.types.config.Commitment;

public class First {
  public static void main(String[] args) throws Exception {
    RpcApi api = new RpcClient(System.getenv("PARHELION_URL")).getApi(); // http://127.0.0.1:8787/?api-key=KEY
    System.out.println("slot " + api.getSlot(Commitment.CONFIRMED));
    PublicKey wallet = new PublicKey("11111111111111111111111111111111");
    System.out.println("lamports " + api.getBalance(wallet, Commitment.CONFIRMED));
  }
}
