package oracle;

import java.time.Instant;

/** The made-up shop whose job writes the savepoint that ships with the project: its classes and its input. */
public final class Shop {
    static final int ORDERS = 1200;
    static final Instant OPENING = Instant.parse("2025-06-01T10:00:00Z");
    static final long MILLIS_BETWEEN_ORDERS = 500;
    static final String[] CURRENCIES = {"EUR", "USD", "GBP", "JPY", "CHF"};
    static final double[] RATES = {1.0, 1.1347, 0.8419, 163.55, 0.9331};
    private static final int ACCOUNTS = 200;
    private static final String[] PRODUCTS = {
        "bicycle", "café filter", "desk lamp", "kettle", "notebook", "rain coat", "tea 玉露", "umbrella"
    };
    private static final String[] NAMES = {
        "Ada", "Björn", "Chloé", "Dmitri", "Emeka", "Fatima", "Grace", "Hồ", "Inés", "Jun", "Kwame", "Łucja", "Mei 美"
    };
    private static final String[] CITIES = {"Berlin", "Lagos", "Lima", "Osaka", "Paris", "Pune", "Toronto", "Zürich"};

    private Shop() {}

    public enum Tier {
        BASIC,
        SILVER,
        GOLD
    }

    public static class Order {
        public long orderId;
        public long accountId;
        public String product;
        public String currency;
        public long cents;
        public Instant time;
    }

    public static class Profile {
        public String name;
        public String city;
        public Instant since;
        public Tier tier;
        public Integer birthYear;
    }

    static Order order(int i) {
        Order order = new Order();
        order.orderId = i;
        order.accountId = 1001 + i * 37L % ACCOUNTS;
        order.product = PRODUCTS[i * 5 % 11 % PRODUCTS.length];
        order.currency = CURRENCIES[(int) (order.accountId % 3 + i % 2) % CURRENCIES.length];
        order.cents = 199 + i * 997L % 20_000;
        order.time = OPENING.plusMillis(i * MILLIS_BETWEEN_ORDERS);
        return order;
    }

    static Profile profile(long accountId) {
        int i = (int) accountId;
        Profile profile = new Profile();
        profile.name = NAMES[i % NAMES.length];
        profile.city = i % 11 == 0 ? null : CITIES[i % CITIES.length];
        profile.since = OPENING.minusSeconds(i * 86_413L);
        profile.tier = Tier.values()[i % 7 == 0 ? 2 : i % 3 == 0 ? 1 : 0];
        profile.birthYear = i % 4 == 0 ? null : Integer.valueOf(1950 + i % 55);
        return profile;
    }

    /** Some have a coupon, which is forgotten after some time. */
    static String coupon(long accountId) {
        return accountId % 4 == 0 ? "SUMMER-" + accountId : null;
    }
}
