package oracle;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What the operators of this JVM found in their state: by uid and state, the entries of all subtasks. */
final class Found {
    private static final Map<String, Map<String, List<Object>>> BY_UID = new LinkedHashMap<>();

    private Found() {}

    static synchronized void add(String uid, String state, List<Object> entries) {
        BY_UID.computeIfAbsent(uid, u -> new LinkedHashMap<>())
                .computeIfAbsent(state, s -> new ArrayList<>())
                .addAll(entries);
    }

    static synchronized Object all() {
        return BY_UID;
    }

    /** What was found since the last time. */
    static synchronized Object take() {
        Object found = new LinkedHashMap<>(BY_UID);
        BY_UID.clear();
        return found;
    }
}
